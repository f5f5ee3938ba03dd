// Qwen1.5-MoE and Qwen2-MoE: attention with biases on queries, keys and values; MoE layers with a gated
// shared expert. Follows transformers' modeling_qwen2_moe.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Qwen2-MoE. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_qwen2_moe_config(const ConfigReader& config);

}  // namespace sluice
