// Norms before a layer's blocks and behind the last layer, and how all norms of a model normalise. Computed
// by decoder/block_norm.hpp.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::norms {

inline constexpr std::string_view kInput = "input_layernorm.weight";
inline constexpr std::string_view kPostAttention = "post_attention_layernorm.weight";
/// Norms before and behind a layer's MLP where branches are normalised; kPostAttention is behind the mixer then.
inline constexpr std::string_view kPreMlp = "pre_mlp_layernorm.weight";
inline constexpr std::string_view kPostMlp = "post_mlp_layernorm.weight";
/// Norms behind the dense MLP, before the experts and behind them, where a layer has both side by side.
inline constexpr std::string_view kPostDense = "post_dense_layernorm.weight";
inline constexpr std::string_view kPreExperts = "pre_experts_layernorm.weight";
inline constexpr std::string_view kPostExperts = "post_experts_layernorm.weight";
/// Constant [1] that a layer's hidden states are multiplied by, a buffer.
inline constexpr std::string_view kLayerScalar = "layer_scalar";
inline constexpr std::string_view kFinal = "model.norm.weight";

/// Weight [size] of a norm to which zero_centred_norms applies: untrained, it multiplies by 1 in either form.
[[nodiscard]] BlockTensor weight(const ModelConfig& config, std::string_view name, std::int64_t size);
/// Name of the norm before a layer's MLP.
[[nodiscard]] std::string_view before_mlp(const ModelConfig& config);
/// Norms of one layer: of its mixer and of its MLP, as far as it has them.
[[nodiscard]] std::vector<BlockTensor> layer_tensors(const ModelConfig& config, int layer);
[[nodiscard]] BlockTensor final_tensor(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);

}  // namespace sluice::blocks::norms
