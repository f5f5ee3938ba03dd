// What families with Kimi delta attention share: the names that it is published under.
#pragma once

#include "manifest/manifest.hpp"
#include "model/model_config.hpp"

#include <string_view>

namespace sluice {

/// Publishes a layer's Kimi delta attention as checkpoints have it: the decay beside what else `block` has, and a
/// convolution each for queries, keys and values. Its other tensors are left to the family.
void publish_kimi_delta(const ModelConfig& config, int layer, ParameterManifest& manifest,
                        std::string_view block = "self_attn");

}  // namespace sluice
