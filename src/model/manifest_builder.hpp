// Manifest of a decoder from its blocks.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// The whole decoder in the order of transformers' module tree: embedding, layers, norm, head, rotary tables.
/// In a layer: what mixes tokens, the MLP, the two norms.
[[nodiscard]] ParameterManifest describe_decoder(const ModelConfig& config, DType dtype);

}  // namespace sluice
