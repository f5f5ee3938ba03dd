#include "model/kimi_delta_config.hpp"

#include "model/blocks/kimi_delta.hpp"
#include "model/manifest_builder.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

namespace sluice {

LinearAttentionConfig read_kimi_delta_config(const ConfigReader& config,
                                             const std::optional<ConfigReader>& nested) {
  constexpr std::int64_t kMostTaps = 1024;
  const auto read = [&](const char* inner, const char* outer, std::int64_t otherwise, std::int64_t most) {
    return nested && nested->has(inner) ? nested->integer({inner}, {}, 1, most)
                                        : config.integer({outer}, otherwise, 1, most);
  };
  constexpr std::int64_t kMost = 65'536;
  const std::int64_t heads = read("num_heads", "linear_num_heads", 32, kMost);
  const std::int64_t size = read("head_dim", "linear_head_dim", 128, kMost);
  return {.key_heads = heads,
          .value_heads = heads,
          .key_head_dim = size,
          .value_head_dim = size,
          .conv_kernel_size = read("short_conv_kernel_size", "linear_conv_kernel_dim", 4, kMostTaps)};
}

void publish_kimi_delta(const ModelConfig& config, int layer, ParameterManifest& manifest,
                        std::string_view block) {
  namespace names = blocks::kimi_delta;
  constexpr std::string_view kGate = "forget_gate.";
  for (const std::string_view name :
       {names::kDtBias, names::kALog, names::kFProj, names::kFAProj, names::kFBProj}) {
    const std::string tensor = layer_tensor_name(layer, name);
    if (!manifest.find(tensor)) continue;
    const std::string_view rest = name.substr(name.find(kGate) + kGate.size());
    publish_as(layer_tensor_name(layer, fmt::format("{}.{}", block, rest)), {tensor}, manifest,
               /*is_in_tree=*/false);
  }
  const std::string conv = layer_tensor_name(layer, names::kConv1d);
  const std::int64_t width = config.linear_attention.value_heads * config.linear_attention.value_head_dim;
  std::int64_t first = 0;
  for (const std::string_view part : {"q_conv1d", "k_conv1d", "v_conv1d"}) {
    const std::array rows{JoinedRows{conv, first, width}};
    manifest.add_joined(layer_tensor_name(layer, fmt::format("{}.{}.weight", block, part)), 1, rows,
                        /*is_in_tree=*/false);
    first += width;
  }
}

}  // namespace sluice
