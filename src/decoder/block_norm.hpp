// The norms before, between and behind a decoder's blocks.
#pragma once

#include "model/model_config.hpp"
#include "ops/norm.hpp"

namespace sluice {

/// Kind of the model's norms.
[[nodiscard]] inline ops::NormKind norm_kind(const ModelConfig& config) {
  if (config.layer_norms) return ops::NormKind::kLayerNorm;
  if (config.zero_centred_norms) return ops::NormKind::kZeroCentred;
  return config.unrounded_norms ? ops::NormKind::kUnrounded : ops::NormKind::kFactor;
}

/// x [..., N] normalised over its last dimension, times the weight [N] as norm_kind() says.
[[nodiscard]] inline at::Tensor block_norm(const ModelConfig& config, const at::Tensor& x,
                                           const ops::Parameter& weight) {
  return ops::row_norm(x, weight, config.rms_norm_eps, norm_kind(config));
}

}  // namespace sluice
