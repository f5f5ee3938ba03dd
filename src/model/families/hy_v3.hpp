// Hy3: attention with query and key norms; after dense layers, MoE layers with shared experts and a router of
// sigmoid scores with a correction bias. Follows transformers' modeling_hy_v3.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Hy3. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_hy_v3_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_hy_v3(const ModelConfig& config, DType dtype);

}  // namespace sluice
