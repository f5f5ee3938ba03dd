// K-EXAONE: attention with norms of heads, in layers with a window, which alone rotate queries and keys, and
// without; mixtures as in DeepSeek-V3. Follows transformers' modeling_exaone_moe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of K-EXAONE. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_exaone_moe_config(const ConfigReader& config);
/// describe_decoder() with the names of published checkpoints.
[[nodiscard]] ParameterManifest describe_exaone_moe(const ModelConfig& config, DType dtype);

}  // namespace sluice
