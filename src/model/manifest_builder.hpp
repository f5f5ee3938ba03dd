// Manifest of a decoder from its blocks.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"

namespace sluice {

/// Manifest of a whole decoder in the order of transformers' module tree: embedding, layers, norm, head,
/// rotary tables. Each layer has its token mixer, its MLP and two norms.
[[nodiscard]] ParameterManifest describe_decoder(const ModelConfig& config, DType dtype);

}  // namespace sluice
