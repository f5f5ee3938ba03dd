// Causal self-attention of Qwen3: grouped queries, normalised queries and keys, rotary positions.
#pragma once

#include "model/model_config.hpp"
#include "ops/parameter.hpp"
#include "ops/rotary.hpp"

namespace sluice {

/// Weights of one layer's attention; shapes as in the manifest.
struct AttentionParameters {
  ops::Parameter q_proj, k_proj, v_proj,
      o_proj;                     ///< [heads x head_dim, hidden], …, [hidden, heads x head_dim]
  ops::Parameter q_norm, k_norm;  ///< [head_dim]
};

/// x [b, L, hidden] -> [b, L, hidden]; tokens attend to themselves and to earlier ones of their sequence.
[[nodiscard]] at::Tensor attention_block(const ModelConfig& config, const AttentionParameters& parameters,
                                         const ops::RotaryTable& rotary, const at::Tensor& x);

}  // namespace sluice
