// What ranks must agree on of a model beside its tensors.
#pragma once

#include "model/blocks/block.hpp"

#include <vector>

namespace sluice {

/// Of the model and of every block there is, whether the model has it or not; same keys in the same order for
/// all models.
[[nodiscard]] std::vector<Setting> agreed_settings(const ModelConfig& config);

}  // namespace sluice
