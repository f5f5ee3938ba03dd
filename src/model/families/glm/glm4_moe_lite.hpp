// GLM-4.7-Flash: latent attention, and behind a dense layer experts chosen by corrected sigmoids, beside one
// for every token. Follows transformers' modeling_glm4_moe_lite.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of GLM-4.7-Flash. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_glm4_moe_lite_config(const ConfigReader& config);

}  // namespace sluice
