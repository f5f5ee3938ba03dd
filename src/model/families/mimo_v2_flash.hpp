// MiMoV2FlashForCausalLM: MiMo-V2-Flash. Layers with a window have heads, a theta and sinks of their own; the others
// have none of these.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json as it is published, or as transformers saves it. Of the published keys transformers 5.24 leaves out
/// the kinds of layers, heads of layers with a window, thetas and layernorm_epsilon: it has the release's for granted.
/// Error(kBadData) for settings that no block computes, and for keys that contradict each other.
[[nodiscard]] ModelConfig read_mimo_v2_flash_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_mimo_v2_flash(const ModelConfig& config, DType dtype);

}  // namespace sluice
