// Mamba-2, as Granite 4 and Nemotron-H have it. Computed by decoder/mamba2_block.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::mamba2 {

inline constexpr std::string_view kDtBias = "mamba.dt_bias";
inline constexpr std::string_view kALog = "mamba.A_log";
/// Factor of a head's input in its output.
inline constexpr std::string_view kSkip = "mamba.D";
inline constexpr std::string_view kConv1d = "mamba.conv1d.weight";
/// Bias of the convolution, if the model has one.
inline constexpr std::string_view kConvBias = "mamba.conv1d.bias";
/// Projection to the gate z, to what the convolution mixes (heads' inputs, B, C), and to time steps.
inline constexpr std::string_view kInProj = "mamba.in_proj.weight";
inline constexpr std::string_view kNorm = "mamba.norm.weight";
inline constexpr std::string_view kOutProj = "mamba.out_proj.weight";

/// Tensors of the block, in the order of the module tree. dt_bias, A_log and D are float32 parameters.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

/// Cache of the block: the convolution's last inputs, and the state in float32.
[[nodiscard]] BlockCache cache(const ModelConfig& config, std::int64_t element_bytes);

}  // namespace sluice::blocks::mamba2
