// Qwen3.5, dense and mixture of experts: three layers in four have linear attention (gated delta net), the
// others full attention with an output gate; MoE layers have a shared expert. Follows transformers'
// modeling_qwen3_5.py and modeling_qwen3_5_moe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <cstdint>

namespace sluice {

/// Reads what these models and Qwen3-Next share: which layers have linear attention, their delta nets, and
/// gated attention. `key_value_heads` is the default of that key. All layers are dense.
[[nodiscard]] ModelConfig read_hybrid_config(const ConfigReader& config, std::int64_t key_value_heads);

/// Reads the language model alone (qwen3_5_text, qwen3_5_moe_text).
[[nodiscard]] ModelConfig read_qwen3_5_text_config(const ConfigReader& config);
[[nodiscard]] ModelConfig read_qwen3_5_moe_text_config(const ConfigReader& config);
/// Reads the language model in `text_config`, beside a vision tower (qwen3_5, qwen3_5_moe).
[[nodiscard]] ModelConfig read_qwen3_5_config(const ConfigReader& config);
[[nodiscard]] ModelConfig read_qwen3_5_moe_config(const ConfigReader& config);

/// Describes a decoder with the names of the text model. Checkpoints may also hold the vision tower and the
/// multi-token prediction head.
[[nodiscard]] ParameterManifest describe_qwen3_5_text(const ModelConfig& config, DType dtype);
/// Describes the text model with tensors published under `model.language_model.`.
[[nodiscard]] ParameterManifest describe_qwen3_5(const ModelConfig& config, DType dtype);

}  // namespace sluice
