// GLM-4.5 to 4.7: grouped-query attention of which half of a head turns, and behind some dense layers experts
// chosen by corrected sigmoids within groups, beside an expert for every token. Follows transformers'
// modeling_glm4_moe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of GLM-4.5 to 4.7. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_glm4_moe_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_glm4_moe(const ModelConfig& config, DType dtype);

}  // namespace sluice
