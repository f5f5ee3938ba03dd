// MiniMax-M3: clamped gates in all MLPs, norms that multiply by 1 + weight, sigmoid routers, and indexers that choose
// blocks of keys; alone, or beside the vision tower of its checkpoints, in which names are others.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

[[nodiscard]] ModelConfig read_minimax_m3_vl_text_config(const ConfigReader& config);
[[nodiscard]] ModelConfig read_minimax_m3_vl_config(const ConfigReader& config);
/// Manifest whose checkpoints have the names of transformers' module tree, all experts of a layer in two tensors.
[[nodiscard]] ParameterManifest describe_minimax_m3_vl_text(const ModelConfig& config, DType dtype);
[[nodiscard]] ParameterManifest describe_minimax_m3_vl(const ModelConfig& config, DType dtype);

}  // namespace sluice
