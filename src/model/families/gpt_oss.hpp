// gpt-oss (GptOssForCausalLM): a mixture of experts in every layer, attention with sinks, to a window of
// tokens in every other layer, biases everywhere.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of gpt-oss. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_gpt_oss_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_gpt_oss(const ModelConfig& config, DType dtype);

}  // namespace sluice
