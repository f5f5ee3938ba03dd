// Mixtral: grouped-query attention without query and key norms; experts in every layer. Follows transformers'
// modeling_mixtral.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Mixtral. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_mixtral_config(const ConfigReader& config);

/// Describes a decoder with the names of published checkpoints: `block_sparse_moe.experts.7.w1.weight`.
[[nodiscard]] ParameterManifest describe_mixtral(const ModelConfig& config, DType dtype);

}  // namespace sluice
