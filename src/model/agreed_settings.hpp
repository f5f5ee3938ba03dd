// Settings of a model that ranks must agree on besides its tensors.
#pragma once

#include "model/blocks/block.hpp"

#include <vector>

namespace sluice {

/// Settings of the model and of every kind of block, whether the model has it or not; all models have the
/// same keys in the same order.
[[nodiscard]] std::vector<Setting> agreed_settings(const ModelConfig& config);

}  // namespace sluice
