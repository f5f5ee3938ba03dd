// Multi-head latent attention (DeepSeek-V2, section 2.1): keys and values of all heads are made of one short
// vector a token, and beside it lies one rotary key that all heads share. Computed by
// decoder/latent_attention_block.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::latent_attention {

/// Unless queries have a rank: [heads x (nope + rope), hidden].
inline constexpr std::string_view kQProj = "self_attn.q_proj.weight";
inline constexpr std::string_view kQAProj = "self_attn.q_a_proj.weight";       ///< [query rank, hidden]
inline constexpr std::string_view kQANorm = "self_attn.q_a_layernorm.weight";  ///< [query rank]
/// [heads x (nope + rope), query rank]
inline constexpr std::string_view kQBProj = "self_attn.q_b_proj.weight";
/// [key and value rank + rope, hidden]
inline constexpr std::string_view kKvAProj = "self_attn.kv_a_proj_with_mqa.weight";
inline constexpr std::string_view kKvANorm = "self_attn.kv_a_layernorm.weight";  ///< [key and value rank]
/// [heads x (nope + value), key and value rank]
inline constexpr std::string_view kKvBProj = "self_attn.kv_b_proj.weight";
inline constexpr std::string_view kOProj = "self_attn.o_proj.weight";   ///< [hidden, heads x value]
inline constexpr std::string_view kQABias = "self_attn.q_a_proj.bias";  ///< if the model has biases
inline constexpr std::string_view kKvABias = "self_attn.kv_a_proj_with_mqa.bias";
inline constexpr std::string_view kOBias = "self_attn.o_proj.bias";

/// Epsilon of the two inner norms, whatever the model's others have: that of DeepseekV3RMSNorm.
inline constexpr double kNormEpsilon = 1e-6;

/// Tensors of the block, in the order of the module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
/// None for models without such layers.
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

/// The short vector and the rotary key of each token.
[[nodiscard]] BlockCache cache(const ModelConfig& config, std::int64_t element_bytes);

}  // namespace sluice::blocks::latent_attention
