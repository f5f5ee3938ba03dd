// DeepSeek-V2, V2-Lite and their coder models: latent attention (MLA); after some dense layers, MoE layers
// with shared experts and a softmax router, which DeepSeek-V2 limits to the best groups. Follows
// transformers' modeling_deepseek_v2.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of DeepSeek-V2. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_deepseek_v2_config(const ConfigReader& config);

}  // namespace sluice
