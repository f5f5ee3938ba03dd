// Kimi delta attention of Kimi Linear and Ling 3: a delta net whose state decays by channel. Computed by
// decoder/kimi_delta_block.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::kimi_delta {

inline constexpr std::string_view kQProj = "self_attn.q_proj.weight";
inline constexpr std::string_view kKProj = "self_attn.k_proj.weight";
inline constexpr std::string_view kVProj = "self_attn.v_proj.weight";
/// Filters of the causal convolution of queries, keys and values.
inline constexpr std::string_view kConv1d = "self_attn.conv1d.weight";
inline constexpr std::string_view kDtBias = "self_attn.forget_gate.dt_bias";
inline constexpr std::string_view kALog = "self_attn.forget_gate.A_log";
/// Projection to the decay, or two with a low rank between them.
inline constexpr std::string_view kFProj = "self_attn.forget_gate.f_proj.weight";
inline constexpr std::string_view kFAProj = "self_attn.forget_gate.f_a_proj.weight";
inline constexpr std::string_view kFBProj = "self_attn.forget_gate.f_b_proj.weight";
/// Projection to the strength with which a key's value is replaced.
inline constexpr std::string_view kBProj = "self_attn.b_proj.weight";
/// Projection to the gate of the output, or two with a low rank between them.
inline constexpr std::string_view kGProj = "self_attn.g_proj.weight";
inline constexpr std::string_view kGAProj = "self_attn.g_a_proj.weight";
inline constexpr std::string_view kGBProj = "self_attn.g_b_proj.weight";
inline constexpr std::string_view kNorm = "self_attn.o_norm.weight";
inline constexpr std::string_view kOProj = "self_attn.o_proj.weight";

/// Tensors of the block, in the order of the module tree. dt_bias and A_log are float32 parameters.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
/// Settings of the block; those of heads are the delta net's.
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

}  // namespace sluice::blocks::kimi_delta
