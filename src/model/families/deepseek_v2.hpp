// DeepSeek-V2, V2-Lite and their coders: latent attention, and behind some dense layers experts chosen by a
// softmax, in DeepSeek-V2 within the best groups, beside experts for every token. Follows transformers'
// modeling_deepseek_v2.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of DeepSeek-V2. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_deepseek_v2_config(const ConfigReader& config);

}  // namespace sluice
