// dots.llm1: attention of Qwen3, and behind some dense layers experts chosen by corrected sigmoids, beside
// experts for every token. Follows transformers' modeling_dots1.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of dots.llm1. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_dots1_config(const ConfigReader& config);

}  // namespace sluice
