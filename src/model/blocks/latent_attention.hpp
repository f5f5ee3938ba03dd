// Multi-head latent attention (DeepSeek-V2, section 2.1): keys and values of all heads come from one latent
// vector per token, beside one rotary key that all heads share. Computed by decoder/latent_attention_block.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::latent_attention {

/// Query projection of models without a query rank, [heads x (nope + rope), hidden].
inline constexpr std::string_view kQProj = "self_attn.q_proj.weight";
/// Projection to the queries' latent vector, [query rank, hidden].
inline constexpr std::string_view kQAProj = "self_attn.q_a_proj.weight";
/// Norm of the queries' latent vector, [query rank].
inline constexpr std::string_view kQANorm = "self_attn.q_a_layernorm.weight";
/// Projection from the latent vector to queries, [heads x (nope + rope), query rank].
inline constexpr std::string_view kQBProj = "self_attn.q_b_proj.weight";
/// Projection to the latent vector and the shared rotary key, [key and value rank + rope, hidden].
inline constexpr std::string_view kKvAProj = "self_attn.kv_a_proj_with_mqa.weight";
/// Norm of the latent vector, [key and value rank].
inline constexpr std::string_view kKvANorm = "self_attn.kv_a_layernorm.weight";
/// Projection from the latent vector to keys and values, [heads x (nope + value), key and value rank].
inline constexpr std::string_view kKvBProj = "self_attn.kv_b_proj.weight";
/// Output projection, [hidden, heads x value].
inline constexpr std::string_view kOProj = "self_attn.o_proj.weight";
/// Projection of the output's gate, [heads, hidden] or [heads x value, hidden], if the model has one.
inline constexpr std::string_view kGateProj = "self_attn.g_proj.weight";
/// Bias of the projection to the queries' latent vector, if the model has biases.
inline constexpr std::string_view kQABias = "self_attn.q_a_proj.bias";
inline constexpr std::string_view kKvABias = "self_attn.kv_a_proj_with_mqa.bias";
inline constexpr std::string_view kOBias = "self_attn.o_proj.bias";

/// Epsilon of the two inner norms: that of DeepseekV3RMSNorm, whatever the model's other norms have.
inline constexpr double kNormEpsilon = 1e-6;

/// Tensors of the block, in the order of the module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
/// Settings of the block; empty for models without latent attention.
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

/// Cache of the block: the latent vector and the rotary key of each token.
[[nodiscard]] BlockCache cache(const ModelConfig& config, std::int64_t element_bytes);

}  // namespace sluice::blocks::latent_attention
