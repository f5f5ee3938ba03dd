// MiniMax-M2: attention whose queries and keys are normalised over all heads at once and turn in part, and in
// every layer experts chosen by corrected sigmoids. Follows transformers' modeling_minimax_m2.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of MiniMax-M2. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_minimax_m2_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_minimax_m2(const ModelConfig& config, DType dtype);

}  // namespace sluice
