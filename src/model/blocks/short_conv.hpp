// Gated short convolution of LFM2: each channel's last few tokens, weighed by a filter of its own, between two gates.
// Computed by decoder/short_conv_block.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::short_conv {

/// Filters of the causal convolution, [hidden, 1, taps].
inline constexpr std::string_view kConv = "conv.conv.weight";
/// Projection to the gate of the inputs, the gate of the outputs, and the inputs, [3 x hidden, hidden].
inline constexpr std::string_view kInProj = "conv.in_proj.weight";
/// Output projection, [hidden, hidden].
inline constexpr std::string_view kOutProj = "conv.out_proj.weight";

/// Tensors of the block, in the order of the module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
/// Settings of the block: none, as its sizes are shapes.
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

/// Cache of the block: the convolution's last inputs.
[[nodiscard]] BlockCache cache(const ModelConfig& config, std::int64_t element_bytes);

}  // namespace sluice::blocks::short_conv
