// Manifest of a decoder from its blocks.
#pragma once

#include "manifest/manifest.hpp"
#include "model/blocks/swiglu.hpp"
#include "model/model_config.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Manifest of a whole decoder in the order of transformers' module tree: embedding, layers, norm, head,
/// rotary tables. Each layer has its token mixer, its MLP and its norms, as layer_tensors() lists them.
[[nodiscard]] ParameterManifest describe_decoder(const ModelConfig& config, DType dtype);

/// Names of the MLP that every token of a layer passes through: its dense MLP, or its shared expert.
[[nodiscard]] const blocks::SwigluNames& mlp_of_all_tokens(const ModelConfig& config, int layer);

/// Publishes whole tensors of the manifest, one behind the other, as one tensor `name`, which checkpoints have or
/// transformers' module tree, or both.
void publish_as(std::string name, const std::vector<std::string>& tensors, ParameterManifest& manifest,
                JoinedIn in = JoinedIn::kBoth);

}  // namespace sluice
