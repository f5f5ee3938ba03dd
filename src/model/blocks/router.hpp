// The top-k router of a mixture of experts: a softmax over all of them. Computed by ops/router.
#pragma once

#include "model/blocks/block.hpp"

namespace sluice::blocks::router {

inline constexpr std::string_view kWeight = "mlp.gate.weight";

[[nodiscard]] std::vector<BlockTensor> tensors(const ModelConfig& config);
[[nodiscard]] std::vector<Setting> settings(const ModelConfig& config);
[[nodiscard]] BlockActivations activations(const ModelConfig& config);

}  // namespace sluice::blocks::router
