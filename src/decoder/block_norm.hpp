// The norms before, between and behind a decoder's blocks.
#pragma once

#include "model/model_config.hpp"
#include "ops/norm.hpp"

namespace sluice {

/// How the model's norms use their weights: as factors, or as differences from 1.
[[nodiscard]] inline ops::NormWeight norm_weight(const ModelConfig& config) {
  if (config.zero_centred_norms) return ops::NormWeight::kZeroCentred;
  return config.unrounded_norms ? ops::NormWeight::kUnrounded : ops::NormWeight::kFactor;
}

/// x [..., N] normalised over its last dimension, times the weight [N] as norm_weight() says.
[[nodiscard]] inline at::Tensor block_norm(const ModelConfig& config, const at::Tensor& x,
                                           const ops::Parameter& weight) {
  return ops::rms_norm(x, weight, config.rms_norm_eps, norm_weight(config));
}

}  // namespace sluice
