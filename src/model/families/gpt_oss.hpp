// gpt-oss (GptOssForCausalLM): experts in every layer, attention with sinks and, in every other layer, a
// sliding window, and biases in all projections.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of gpt-oss. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_gpt_oss_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_gpt_oss(const ModelConfig& config, DType dtype);

}  // namespace sluice
