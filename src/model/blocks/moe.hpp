// Mixture of experts as one MLP: router, routed experts, and a shared expert if the model has it. Computed by
// decoder/mlp_blocks.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::moe {

/// Tensors in the order of the model's module tree.
[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config, const PassSize& pass);

}  // namespace sluice::blocks::moe
