// Softmax attention of grouped queries, to all tokens before or to a window of them; where the model has them
// with biases, with norms of queries and keys, with sinks, and with a gate on the output. Computed by
// decoder/attention_block.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::attention {

inline constexpr std::string_view kQProj = "self_attn.q_proj.weight";
inline constexpr std::string_view kKProj = "self_attn.k_proj.weight";
inline constexpr std::string_view kVProj = "self_attn.v_proj.weight";
inline constexpr std::string_view kOProj = "self_attn.o_proj.weight";
/// Bias of the query projection, if the model has biases.
inline constexpr std::string_view kQBias = "self_attn.q_proj.bias";
inline constexpr std::string_view kKBias = "self_attn.k_proj.bias";
inline constexpr std::string_view kVBias = "self_attn.v_proj.bias";
inline constexpr std::string_view kOBias = "self_attn.o_proj.bias";
/// Attention sinks [heads], if the model has them.
inline constexpr std::string_view kSinks = "self_attn.sinks";
/// Projection of the output gate [heads x head size, hidden] or [heads, hidden], if it has one of its own.
inline constexpr std::string_view kGateProj = "self_attn.gate_proj.weight";
/// Norms of queries and keys, unless QueryKeyNorm::kNone.
inline constexpr std::string_view kQNorm = "self_attn.q_norm.weight";
inline constexpr std::string_view kKNorm = "self_attn.k_norm.weight";

/// Values of a token's gate that has a projection of its own, on heads of this size.
[[nodiscard]] std::int64_t gate_values(const ModelConfig& config, std::int64_t head_size);
/// Elements of a token that a graph keeps of the output's gate: its function's value and its product; of a joint
/// projection also what it makes, and of a softplus its float32 argument.
[[nodiscard]] std::int64_t kept_of_gate(const ModelConfig& config, std::int64_t head_size,
                                        const PassSize& pass);

/// Tensors of the block. Where the output gate has no projection of its own, q_proj has each head's query and gate.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
/// Settings of layers with a window, besides those of attention.
[[nodiscard]] std::vector<Setting> sliding_settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

/// Cache of the block: keys and values of each token.
[[nodiscard]] BlockCache cache(const ModelConfig& config, std::int64_t element_bytes);

}  // namespace sluice::blocks::attention
