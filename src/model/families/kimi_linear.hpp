// Kimi Linear: Kimi delta attention, and in some layers latent attention (MLA) without rotation; after some dense
// layers, mixtures with shared experts and DeepSeek-V3's router. Follows transformers' modeling_kimi_linear.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Kimi Linear. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_kimi_linear_config(const ConfigReader& config);
/// describe_decoder() with the names of published checkpoints, which have a convolution each for queries, keys and
/// values.
[[nodiscard]] ParameterManifest describe_kimi_linear(const ModelConfig& config, DType dtype);

}  // namespace sluice
