// Gemma 4 with experts: two sizes of heads, values that are keys, a dense MLP beside the experts, a router that
// scales its own input, constants by layer, bounded logits. Follows transformers' modeling_gemma4.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of the text model. Error(kBadData) for settings that no block computes.
[[nodiscard]] ModelConfig read_gemma4_text_config(const ConfigReader& config);
/// Reads config.json of Gemma 4 with its vision tower.
[[nodiscard]] ModelConfig read_gemma4_config(const ConfigReader& config);

/// describe_decoder() with the names of published checkpoints, which transformers' module tree has too.
[[nodiscard]] ParameterManifest describe_gemma4_text(const ModelConfig& config, DType dtype);
/// describe_gemma4_text() under the wrapper's prefix, with the parts that are carried along.
[[nodiscard]] ParameterManifest describe_gemma4(const ModelConfig& config, DType dtype);

}  // namespace sluice
