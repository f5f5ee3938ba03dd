// GLM-4.7-Flash: latent attention (MLA); after a dense layer, MoE layers with a shared expert and a router of
// sigmoid scores with a correction bias. Follows transformers' modeling_glm4_moe_lite.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of GLM-4.7-Flash. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_glm4_moe_lite_config(const ConfigReader& config);

}  // namespace sluice
