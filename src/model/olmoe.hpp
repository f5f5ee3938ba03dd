// OLMoE: attention whose queries and keys are normalised over all heads at once, experts in every layer.
// Follows transformers' modeling_olmoe.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

[[nodiscard]] ModelConfig read_olmoe_config(const ConfigReader& config);

/// Tensors in the order of transformers' module tree.
[[nodiscard]] ParameterManifest describe_olmoe(const ModelConfig& config, DType dtype);

}  // namespace sluice
