// Qwen3, dense and mixture of experts: grouped-query attention with query and key norms, SwiGLU, RMSNorm.
// Follows transformers' modeling_qwen3.py and modeling_qwen3_moe.py.
#pragma once

#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json as published (rope_theta, num_experts) or as saved by transformers 5 (rope_parameters,
/// num_local_experts).
[[nodiscard]] ModelConfig read_qwen3_config(const ConfigReader& config);
[[nodiscard]] ModelConfig read_qwen3_moe_config(const ConfigReader& config);

}  // namespace sluice
