// Manifest of a decoder from its blocks.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Manifest of a whole decoder in the order of transformers' module tree: embedding, layers, norm, head,
/// rotary tables. Each layer has its token mixer, its MLP and its norms, as layer_tensors() lists them.
[[nodiscard]] ParameterManifest describe_decoder(const ModelConfig& config, DType dtype);

/// Publishes whole tensors of the manifest, one behind the other, as one checkpoint tensor `name`, which
/// transformers' module tree has too or not.
void publish_as(std::string name, const std::vector<std::string>& tensors, ParameterManifest& manifest,
                bool is_in_tree = true);

}  // namespace sluice
