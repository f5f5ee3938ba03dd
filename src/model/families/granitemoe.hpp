// Granite 3 with experts, and PowerMoE: factors of embedding, residual branches, attention scores and logits;
// experts in every layer. Follows transformers' modeling_granitemoe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Granite with experts. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_granitemoe_config(const ConfigReader& config);

/// Reads what Granite's families share, without experts; all layers are dense and have full attention.
[[nodiscard]] ModelConfig read_granite_config(const ConfigReader& config);
/// Reads the router and its experts, which all layers have.
void read_granite_experts(const ConfigReader& config, ModelConfig& model);

/// Describes a decoder with the names of published checkpoints, in which experts are fused:
/// `block_sparse_moe.input_linear.weight`.
[[nodiscard]] ParameterManifest describe_granitemoe(const ModelConfig& config, DType dtype);

}  // namespace sluice
