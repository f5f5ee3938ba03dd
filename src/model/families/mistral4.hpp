// Mistral Small 4: latent attention (MLA) with queries scaled by their position; MoE layers with shared
// experts and a softmax router. Follows transformers' modeling_mistral4.py.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Reads config.json of Mistral Small 4, for sequences of at most original_max_position_embeddings tokens, in
/// which Mistral4Attention scales every query by 1.
[[nodiscard]] ModelConfig read_mistral4_config(const ConfigReader& config);

/// Reads the language model of a mistral3 (Mistral3ForConditionalGeneration), which also has a vision tower
/// and a projector.
[[nodiscard]] ModelConfig read_mistral3_config(const ConfigReader& config);
[[nodiscard]] ParameterManifest describe_mistral3(const ModelConfig& config, DType dtype);

}  // namespace sluice
