// Mellum 2: attention of Qwen3-MoE, in layers with a window and without, each kind with a rotary embedding of its
// own; softmax routers. Follows transformers' modeling_mellum.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Mellum 2. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_mellum_config(const ConfigReader& config);

}  // namespace sluice
