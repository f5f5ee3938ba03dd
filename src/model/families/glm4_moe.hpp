// GLM-4.5 to 4.7: grouped-query attention with rotary embedding of half of each head; after some dense
// layers, MoE layers with a shared expert and a router of sigmoid scores with a correction bias, limited to
// groups. Follows transformers' modeling_glm4_moe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of GLM-4.5 to 4.7. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_glm4_moe_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_glm4_moe(const ModelConfig& config, DType dtype);

}  // namespace sluice
