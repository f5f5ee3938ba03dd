// Granite 4 with experts (GraniteMoeHybrid): granitemoe with Mamba-2 in most layers, a shared expert, and
// usually no rotary embedding.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

[[nodiscard]] ModelConfig read_granitemoehybrid_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_granitemoehybrid(const ModelConfig& config, DType dtype);

}  // namespace sluice
