// Qwen3-Next and Qwen3-Coder-Next: the layers of Qwen3.5's mixture of experts, some of which may have a dense
// MLP. Follows transformers' modeling_qwen3_next.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Qwen3-Next. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_qwen3_next_config(const ConfigReader& config);

/// Describes a decoder; checkpoints may also hold the multi-token prediction head.
[[nodiscard]] ParameterManifest describe_qwen3_next(const ModelConfig& config, DType dtype);

}  // namespace sluice
