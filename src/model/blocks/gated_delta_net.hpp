// Linear attention of Qwen3-Next and Qwen3.5: a gated delta net. Computed by decoder/delta_net_block.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::gated_delta_net {

inline constexpr std::string_view kInProjQkv = "linear_attn.in_proj_qkv.weight";
inline constexpr std::string_view kInProjZ = "linear_attn.in_proj_z.weight";
inline constexpr std::string_view kInProjB = "linear_attn.in_proj_b.weight";
inline constexpr std::string_view kInProjA = "linear_attn.in_proj_a.weight";
inline constexpr std::string_view kConv1d = "linear_attn.conv1d.weight";
inline constexpr std::string_view kDtBias = "linear_attn.dt_bias";
inline constexpr std::string_view kALog = "linear_attn.A_log";
inline constexpr std::string_view kNorm = "linear_attn.norm.weight";
inline constexpr std::string_view kOutProj = "linear_attn.out_proj.weight";

/// Tensors of the block, in the order of the module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

/// Cache of the block: the convolution's last inputs, and the state in float32.
[[nodiscard]] BlockCache cache(const ModelConfig& config, std::int64_t element_bytes);

/// Elements per token for the states before each chunk of the delta rule, in float32.
[[nodiscard]] std::int64_t state_elements(const LinearAttentionConfig& linear, const PassSize& pass);
/// Bytes of the graph of one chunk, or on a device of the chunks computed together, in float32; other chunks have no
/// graph meanwhile. A head's state has `decays` decays.
[[nodiscard]] std::int64_t working_bytes(const LinearAttentionConfig& linear, const PassSize& pass,
                                         std::int64_t decays);

}  // namespace sluice::blocks::gated_delta_net
