// Dense MLP: an MLP that every token of a layer without experts passes through, or of one that has it beside them.
// Computed by decoder/mlp_blocks.
#pragma once

#include "model/blocks/swiglu.hpp"

namespace sluice::blocks::dense_mlp {

inline constexpr SwigluNames kNames{"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"};

/// Tensors of the block, in the order of the module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
/// Settings of the block: none, because its tensors say everything.
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

}  // namespace sluice::blocks::dense_mlp
