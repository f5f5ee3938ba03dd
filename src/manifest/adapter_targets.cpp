#include "manifest/adapter_targets.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "manifest/adapter.hpp"
#include "manifest/name_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace sluice {
namespace {

bool is_end_of(std::string_view target, std::string_view name) {
  if (!name.ends_with(target)) return false;
  return name.size() == target.size() || name[name.size() - target.size() - 1] == '.';
}

/// Whether an adaptable weight is a projection of a layer.
bool is_projection(const TensorInfo& tensor) {
  return tensor.role != Role::kHead && tensor.role != Role::kRouter;
}

bool means(std::string_view target, const TensorInfo& tensor, const ParameterManifest& manifest) {
  const bool is_meant = is_projection(tensor) && !manifest.is_refused_by_peft(tensor.name);
  if (target == kAllLinear) return is_meant;
  if (target == kLinearModules) return is_meant && tensor.role != Role::kExpert;
  if (target.find_first_of("*?") != std::string_view::npos) return matches_pattern(target, tensor.name);
  constexpr std::string_view kEnd = ".weight";
  const std::string_view name = tensor.name;
  return is_end_of(target, name) ||
         (name.ends_with(kEnd) && is_end_of(target, name.substr(0, name.size() - kEnd.size())));
}

}  // namespace

std::vector<std::string> adapter_targets(const ParameterManifest& manifest,
                                         std::span<const std::string> targets) {
  std::vector<bool> used(targets.size(), false);
  std::vector<std::string> names;
  for (const AdaptableWeight& weight : adaptable_weights(manifest)) {
    bool is_meant = false;
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (means(targets[i], weight.info, manifest)) used[i] = is_meant = true;
    if (is_meant) names.push_back(weight.info.name);
  }
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (!used[i])
      fail({ExitCode::kBadConfig, "manifest.no_match"},
           "lora.targets: found \"{}\", which matches no weight of this model that can be adapted; "
           "expected \"{}\", \"{}\", names of modules such as \"q_proj\", or a pattern of tensor "
           "names such as \"*.self_attn.*\"",
           printable(targets[i]), kAllLinear, kLinearModules);
  return names;
}

std::vector<AdaptedShare> scarcely_adapted(const ParameterManifest& manifest,
                                           const AdapterDescription& adapters) {
  if (adapters.empty()) return {};
  std::vector<AdaptedShare> shares;
  for (const AdaptableWeight& weight : adaptable_weights(manifest)) {
    if (!is_projection(weight.info)) continue;
    auto share = std::ranges::find(shares, weight.info.role, &AdaptedShare::role);
    if (share == shares.end()) share = shares.insert(share, {weight.info.role});
    share->parameters += weight.info.element_count();
    if (adapters.find(weight.info.name) != nullptr) share->adapted += weight.info.element_count();
  }
  std::erase_if(shares, [](const AdaptedShare& share) { return 2 * share.adapted >= share.parameters; });
  return shares;
}

std::string scarcely_adapted_text(const ParameterManifest& manifest, const AdapterDescription& adapters) {
  std::string text;
  for (const AdaptedShare& share : scarcely_adapted(manifest, adapters))
    text += fmt::format("{}{:.1f} % of {}", text.empty() ? "" : ", ",
                        100.0 * static_cast<double>(share.adapted) / static_cast<double>(share.parameters),
                        name_of(share.role));
  return text;
}

}  // namespace sluice
