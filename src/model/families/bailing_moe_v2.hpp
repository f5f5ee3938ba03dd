// Ling and Ring 2.0: grouped-query attention with query and key norms and partial rotary embedding; after
// some dense layers, MoE layers with shared experts and a router of sigmoid scores with a correction bias,
// limited to groups. Follows transformers' sarvam_moe, which is the same model, and the defaults of its own
// published code.
#pragma once

#include "manifest/manifest.hpp"
#include "model/common_config.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Ling and Ring 2.0. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_bailing_moe_v2_config(const ConfigReader& config);
/// Reads routed and shared experts and their router, which Ling 3.0 has too.
void read_bailing_experts(const ConfigReader& config, const SigmoidRouterDefaults& router,
                          ModelConfig& model);
[[nodiscard]] ParameterManifest describe_bailing_moe_v2(const ModelConfig& config, DType dtype);

}  // namespace sluice
