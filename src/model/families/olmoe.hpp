// OLMoE: attention with query and key norms over all heads at once; experts in every layer. Follows
// transformers' modeling_olmoe.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of OLMoE. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_olmoe_config(const ConfigReader& config);

}  // namespace sluice
