// DeepSeek-V3 and R1, Moonlight, and Kimi K2, which differ in numbers alone: latent attention, and behind some dense layers experts
// chosen by corrected sigmoids in groups, beside experts for every token. Follows transformers' modeling_deepseek_v3.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

[[nodiscard]] ModelConfig read_deepseek_v3_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_deepseek_v3(const ModelConfig& config, DType dtype);

}  // namespace sluice
