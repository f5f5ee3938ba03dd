// ERNIE 4.5 with experts: attention with interleaved rotary pairs; after dense layers, MoE layers with shared
// experts and a router of probabilities with a correction bias. Follows transformers'
// modeling_ernie4_5_moe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of ERNIE 4.5. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_ernie4_5_moe_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_ernie4_5_moe(const ModelConfig& config, DType dtype);

}  // namespace sluice
