// The norm in front of, between and behind a decoder's blocks.
#pragma once

#include "model/model_config.hpp"
#include "ops/norm.hpp"

namespace sluice {

/// x [..., N] normalised over its last dimension, times the weight [N] as this model means it.
[[nodiscard]] inline at::Tensor block_norm(const ModelConfig& config, const at::Tensor& x,
                                           const ops::Parameter& weight) {
  return ops::rms_norm(x, weight, config.rms_norm_eps,
                       config.zero_centred_norms ? ops::NormWeight::kZeroCentred : ops::NormWeight::kFactor);
}

}  // namespace sluice
