// Trinity: norms before and behind each block, a gate of attention with a projection of its own, sliding windows whose
// layers alone rotate, sigmoid routers with a correction bias, shared experts. Follows transformers' modeling_afmoe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of AFMoE. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_afmoe_config(const ConfigReader& config);

/// Describes a decoder with the names of published checkpoints: `mlp.router.gate.weight`, `mlp.expert_bias`.
[[nodiscard]] ParameterManifest describe_afmoe(const ModelConfig& config, DType dtype);

}  // namespace sluice
