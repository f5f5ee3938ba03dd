// DeepSeek-V3 and R1, Moonlight, and Kimi K2, which differ in numbers alone: latent attention, and behind
// some dense layers experts chosen by corrected sigmoids in groups, beside experts for every token. Follows
// transformers' modeling_deepseek_v3.py. And what holds such a language model: Kimi K2.5 beside a vision
// tower, DeepSeek-V3.2 and GLM-5 with an indexer in each layer, which picks the tokens that attention sees:
// all of them in sequences that are not longer than what it picks.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of DeepSeek-V3 and Moonlight. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_deepseek_v3_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_deepseek_v3(const ModelConfig& config, DType dtype);

/// Reads the language model of Kimi K2.5 from `text_config`.
[[nodiscard]] ModelConfig read_kimi_k25_config(const ConfigReader& config);
/// Describes the tensors of DeepSeek-V3 published under `language_model.`, beside a vision tower and its
/// projector.
[[nodiscard]] ParameterManifest describe_kimi_k25(const ModelConfig& config, DType dtype);

/// Reads config.json of DeepSeek-V3.2. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_deepseek_v32_config(const ConfigReader& config);
[[nodiscard]] ModelConfig read_glm_moe_dsa_config(const ConfigReader& config);
/// Describes the tensors of DeepSeek-V3; checkpoints hold indexers beside them, which are copied as they are.
[[nodiscard]] ParameterManifest describe_indexed(const ModelConfig& config, DType dtype);

}  // namespace sluice
