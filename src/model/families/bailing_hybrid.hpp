// Ling 3.0: Kimi delta attention, and in some layers latent attention with a gate by head; MoE layers with shared
// experts, a sigmoid router that is limited to groups, and clamps by layer. Follows transformers' bailing_hybrid, but
// for the clamps, which it does not compute.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Ling 3.0. Error(kBadData) for settings that no block computes, and for Ling 2.5 and 2.6,
/// which have this model_type too.
[[nodiscard]] ModelConfig read_bailing_hybrid_config(const ConfigReader& config);
/// describe_decoder() with the names of published checkpoints.
[[nodiscard]] ParameterManifest describe_bailing_hybrid(const ModelConfig& config, DType dtype);

}  // namespace sluice
