// LFM2 with experts: gated short convolutions, and in some layers attention with norms of heads; mixtures with
// routers of sigmoid scores and a correction bias. Follows transformers' modeling_lfm2_moe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of LFM2-MoE. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_lfm2_moe_config(const ConfigReader& config);
/// describe_decoder() with the names of published checkpoints, which transformers' module tree has too.
[[nodiscard]] ParameterManifest describe_lfm2_moe(const ModelConfig& config, DType dtype);

}  // namespace sluice
