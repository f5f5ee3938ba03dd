// Hunyuan A13B: norms of queries and keys behind their rotation, and experts beside a shared one in every layer.
// Follows transformers' modeling_hunyuan_v1_moe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Hunyuan. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_hunyuan_v1_moe_config(const ConfigReader& config);

/// Manifest of the decoder, with the names that Hunyuan has of its own.
[[nodiscard]] ParameterManifest describe_hunyuan_v1_moe(const ModelConfig& config, DType dtype);

}  // namespace sluice
