#include "manifest/key_map.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kGateUp = "gate_up_proj";
constexpr std::string_view kDown = "down_proj";

/// The name in transformers' text-model tree, whatever wrapper the checkpoint was saved from.
std::string without_wrapper(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPrefixes{
      {{"model.language_model.", "model."},
       {"language_model.model.", "model."},
       {"language_model.lm_head.", "lm_head."}}};
  for (const auto& [prefix, plain] : kPrefixes)
    if (name.starts_with(prefix)) return std::string(plain).append(name.substr(prefix.size()));
  return std::string(name);
}

/// "…experts.12.up_proj.weight" taken apart.
struct ExpertKey {
  std::string_view experts;  ///< "…experts."
  std::int64_t expert = 0;
  std::string_view projection;  ///< "gate", "up" or "down"
};

std::optional<ExpertKey> parse_expert_key(std::string_view name) {
  constexpr std::string_view kMarker = ".experts.";
  constexpr std::string_view kSuffix = "_proj.weight";
  const std::size_t marker = name.find(kMarker);
  if (marker == std::string_view::npos || !name.ends_with(kSuffix)) return std::nullopt;
  ExpertKey key;
  key.experts = name.substr(0, marker + kMarker.size());
  const char* const begin = name.data() + key.experts.size();
  const char* const end = name.data() + name.size() - kSuffix.size();
  const auto [dot, error] = std::from_chars(begin, end, key.expert);
  if (error != std::errc{} || dot == end || *dot != '.' || key.expert < 0) return std::nullopt;
  if (dot - begin > 1 && *begin == '0') return std::nullopt;  // "007" is nobody's spelling of 7
  key.projection = std::string_view(dot + 1, static_cast<std::size_t>(end - dot - 1));
  return key;
}

/// Elements of one expert's gate, up or down projection inside the fused tensor ([E, 2I, H] or [E, H, I]).
std::optional<KeyTarget> expert_target(const ParameterManifest& manifest, const ExpertKey& key) {
  const bool down = key.projection == "down";
  if (!down && key.projection != "gate" && key.projection != "up") return std::nullopt;
  const auto tensor = manifest.find(std::string(key.experts).append(down ? kDown : kGateUp));
  if (!tensor) return std::nullopt;
  const std::vector<std::int64_t>& shape = manifest[*tensor].shape;
  if (key.expert >= shape[0]) return std::nullopt;
  const std::int64_t rows = down ? shape[1] : shape[1] / 2;
  const std::int64_t first_row = key.expert * shape[1] + (key.projection == "up" ? rows : 0);
  return KeyTarget{*tensor, first_row * shape[2], {rows, shape[2]}};
}

std::optional<IgnoredKey> ignored(std::string_view name) {
  if (name.starts_with("model.visual.") || name.starts_with("visual.") ||
      name.starts_with("model.vision_tower."))
    return IgnoredKey{"vision tower"};
  if (name.starts_with("mtp.") || name.starts_with("model.mtp.")) return IgnoredKey{"multi-token prediction"};
  if (name.ends_with(".rotary_emb.inv_freq")) return IgnoredKey{"computed buffer"};
  return std::nullopt;
}

/// One expert after the other, each as gate, up, down: the order of the arena, so that a load is one long
/// run.
void publish_experts(const ParameterManifest& manifest, int gate_up, std::vector<PublishedTensor>& out) {
  const std::string& name = manifest[gate_up].name;
  const std::string experts = name.substr(0, name.size() - kGateUp.size());
  for (std::int64_t expert = 0; expert < manifest[gate_up].shape[0]; ++expert) {
    for (const std::string_view projection : {"gate", "up", "down"}) {
      const auto target = expert_target(manifest, {experts, expert, projection});
      SLUICE_ASSERT(target, "{} has no {} projection", experts, projection);
      out.push_back({fmt::format("{}{}.{}_proj.weight", experts, expert, projection), *target});
    }
  }
}

}  // namespace

KeyMap::KeyMap(const ParameterManifest& manifest) : manifest_(manifest) {}

std::variant<KeyTarget, IgnoredKey, UnknownKey> KeyMap::resolve(std::string_view checkpoint_name) const {
  const std::string name = without_wrapper(checkpoint_name);
  if (const auto tensor = manifest_.find(name)) {
    const TensorInfo& info = manifest_[*tensor];
    if (!info.tied_to.empty()) return IgnoredKey{"copy of a tied tensor"};
    if (info.kind == TensorKind::kComputedBuffer) return IgnoredKey{"computed buffer"};
    return KeyTarget{*tensor, 0, info.shape};
  }
  if (const auto key = parse_expert_key(name))
    if (const auto target = expert_target(manifest_, *key)) return *target;
  if (auto reason = ignored(name)) return *std::move(reason);
  return UnknownKey{};
}

std::vector<PublishedTensor> KeyMap::published(ExpertLayout layout) const {
  std::vector<PublishedTensor> out;
  for (const int tensor : manifest_.stored_tensors()) {
    const TensorInfo& info = manifest_[tensor];
    if (info.role != Role::kExpert || layout == ExpertLayout::kFused) {
      out.push_back({info.name, {tensor, 0, info.shape}});
    } else if (info.name.ends_with(kGateUp)) {
      publish_experts(manifest_, tensor, out);
    }
  }
  return out;
}

}  // namespace sluice
