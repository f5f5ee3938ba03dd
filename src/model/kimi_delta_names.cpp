#include "model/kimi_delta_names.hpp"

#include "model/blocks/kimi_delta.hpp"
#include "model/manifest_builder.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

namespace sluice {

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
               JoinedIn::kCheckpoints);
  }
  const std::string conv = layer_tensor_name(layer, names::kConv1d);
  const std::int64_t width = config.linear_attention.value_heads * config.linear_attention.value_head_dim;
  std::int64_t first = 0;
  for (const std::string_view part : {"q_conv1d", "k_conv1d", "v_conv1d"}) {
    const std::array rows{JoinedRows{conv, first, width}};
    manifest.add_joined(layer_tensor_name(layer, fmt::format("{}.{}.weight", block, part)), 1, rows,
                        JoinedIn::kCheckpoints);
    first += width;
  }
}

}  // namespace sluice
