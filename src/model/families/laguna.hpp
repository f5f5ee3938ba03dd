// Laguna: heads by layer, a softplus gate on attention with a projection of its own, sliding windows and rotary
// settings by kind of layer, sigmoid routers with a correction bias and perhaps bounded logits, a shared expert.
// Follows transformers' modeling_laguna.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Laguna. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_laguna_config(const ConfigReader& config);

/// describe_decoder() with the names of published checkpoints: `self_attn.g_proj.weight`, `mlp.shared_expert`,
/// `mlp.experts.e_score_correction_bias`.
[[nodiscard]] ParameterManifest describe_laguna(const ModelConfig& config, DType dtype);

}  // namespace sluice
