// MiniMax-M2: attention with query and key norms over all heads at once and partial rotary embedding; experts
// in every layer, with a router of sigmoid scores with a correction bias. Follows transformers'
// modeling_minimax_m2.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of MiniMax-M2. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_minimax_m2_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_minimax_m2(const ModelConfig& config, DType dtype);

}  // namespace sluice
