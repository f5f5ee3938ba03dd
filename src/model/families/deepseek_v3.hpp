// DeepSeek-V3 and R1, Moonlight, and Kimi K2, which differ in sizes only: latent attention (MLA); after some
// dense layers, MoE layers with shared experts and a router of sigmoid scores with a correction bias, limited
// to groups. Follows transformers' modeling_deepseek_v3.py. Also models that contain such a language model:
// Kimi K2.5 with a vision tower, and DeepSeek-V3.2 and GLM-5 with an indexer in each layer, which selects the
// tokens that attention sees: all of them in sequences no longer than its selection.
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
