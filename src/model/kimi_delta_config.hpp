// What families with Kimi delta attention share: its keys in config.json, and the names that it is published under.
#pragma once

#include "manifest/manifest.hpp"
#include "model/config_reader.hpp"
#include "model/model_config.hpp"

#include <optional>
#include <string_view>

namespace sluice {

/// Reads heads, their size and the width of the convolution, from `nested` where it has them.
[[nodiscard]] LinearAttentionConfig read_kimi_delta_config(const ConfigReader& config,
                                                           const std::optional<ConfigReader>& nested);

/// Publishes a layer's Kimi delta attention as checkpoints have it: the decay beside what else `block` has, and a
/// convolution each for queries, keys and values. Its other tensors are left to the family.
void publish_kimi_delta(const ModelConfig& config, int layer, ParameterManifest& manifest,
                        std::string_view block = "self_attn");

}  // namespace sluice
