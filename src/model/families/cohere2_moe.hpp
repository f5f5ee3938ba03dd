// Cohere's Command A+ and North: attention beside the MLP in each layer, rotation in layers with a window and perhaps
// in dense ones, mixtures whose shared experts count half. Follows transformers' modeling_cohere2_moe.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Cohere's mixtures of experts. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_cohere2_moe_config(const ConfigReader& config);

}  // namespace sluice
