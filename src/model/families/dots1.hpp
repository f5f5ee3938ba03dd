// dots.llm1: the attention of Qwen3; after some dense layers, MoE layers with shared experts and a router of
// sigmoid scores with a correction bias. Follows transformers' modeling_dots1.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of dots.llm1. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_dots1_config(const ConfigReader& config);

}  // namespace sluice
