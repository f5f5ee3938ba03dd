#include "manifest/key_map.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kGateUp = "gate_up_proj";
constexpr std::string_view kUpAlone = "up_proj";  // of experts without a gate
constexpr std::string_view kDown = "down_proj";
constexpr std::string_view kPrediction = "multi-token prediction";

/// Projection of an expert, or two that are joined: part `part` of `parts` equal row ranges of its block in a
/// fused tensor.
struct Projection {
  std::string_view name;
  std::string_view tensor;
  std::int64_t part;
  std::int64_t parts;
};
constexpr Projection kGate{"gate_proj", kGateUp, 0, 2};
constexpr Projection kUp{kUpAlone, kGateUp, 1, 2};
constexpr Projection kUpOnly{kUpAlone, kUpAlone, 0, 1};
constexpr Projection kJoined{kGateUp, kGateUp, 0, 1};
constexpr Projection kDownOnly{kDown, kDown, 0, 1};

const Projection* find_projection(std::string_view name) {
  for (const Projection* projection : {&kGate, &kUp, &kJoined, &kDownOnly})
    if (projection->name == name) return projection;
  return nullptr;
}

/// Name of an expert's tensor in its parts: "…experts.12.up_proj.weight" or "…experts.up_proj".
struct ExpertKey {
  std::string_view experts;            ///< prefix of the experts' names: "…experts."
  std::optional<std::int64_t> expert;  ///< number of the expert; nothing if the tensor has all experts
  const Projection* projection = nullptr;
};

std::string per_expert_name(std::string_view experts, std::int64_t expert, std::string_view projection) {
  return fmt::format("{}{}.{}.weight", experts, expert, projection);
}

/// Parses the end of an expert's name: "12.up_proj.weight".
std::optional<ExpertKey> parse_numbered(std::string_view experts, std::string_view rest) {
  constexpr std::string_view kSuffix = ".weight";
  if (!rest.ends_with(kSuffix)) return std::nullopt;
  std::int64_t expert = 0;
  const char* const begin = rest.data();
  const char* const end = begin + rest.size() - kSuffix.size();
  const auto [dot, error] = std::from_chars(begin, end, expert);
  if (error != std::errc{} || dot == end || *dot != '.' || expert < 0) return std::nullopt;
  // A number with leading zeros, "007", is in no checkpoint.
  if (dot - begin > 1 && *begin == '0') return std::nullopt;
  const std::string_view name(dot + 1, static_cast<std::size_t>(end - dot - 1));
  const Projection* const projection = find_projection(name);
  if (projection == nullptr) return std::nullopt;
  return ExpertKey{experts, expert, projection};
}

std::optional<ExpertKey> parse_expert_key(std::string_view name) {
  constexpr std::string_view kMarker = ".experts.";
  const std::size_t marker = name.find(kMarker);
  if (marker == std::string_view::npos) return std::nullopt;
  const std::string_view experts = name.substr(0, marker + kMarker.size());
  const std::string_view rest = name.substr(experts.size());
  if (const Projection* const projection = find_projection(rest)) return ExpertKey{experts, {}, projection};
  return parse_numbered(experts, rest);
}

/// Elements of a projection in its fused tensor, which is [E, 2I, H] or [E, H, I].
std::optional<KeyTarget> expert_target(const ParameterManifest& manifest, const ExpertKey& key) {
  const auto tensor = manifest.find(std::string(key.experts).append(key.projection->tensor));
  if (!tensor && key.projection == &kUp) return expert_target(manifest, {key.experts, key.expert, &kUpOnly});
  if (!tensor) return std::nullopt;
  const std::vector<std::int64_t>& shape = manifest[*tensor].shape;
  const std::int64_t block = shape[1] * shape[2];
  const std::int64_t rows = shape[1] / key.projection->parts;
  const std::int64_t first = key.projection->part * rows * shape[2];
  const std::int64_t count = rows * shape[2];
  if (key.expert) {
    if (*key.expert >= shape[0]) return std::nullopt;
    return KeyTarget{{rows, shape[2]}, {{*tensor, *key.expert * block + first, count}}};
  }
  KeyTarget target{{shape[0], rows, shape[2]}, {}};
  for (std::int64_t expert = 0; expert < shape[0]; ++expert)
    target.ranges.push_back({*tensor, expert * block + first, count});
  return target;
}

/// Target of a whole tensor in its checkpoint shape; codes have the manifest's shape.
KeyTarget whole(const ParameterManifest& manifest, int tensor, bool quantised = false) {
  const TensorInfo& info = manifest[tensor];
  KeyTarget target{info.shape, {{tensor, 0, info.element_count()}}};
  target.is_transposed =
      manifest.has_transposed_experts() && !quantised && info.role == Role::kExpert && info.shape.size() == 3;
  if (target.is_transposed) std::swap(target.shape[1], target.shape[2]);
  return target;
}

/// Joined tensors of checkpoints that begin with rows of a tensor, for each tensor; and whether one has rows of it.
struct JoinedPlaces {
  explicit JoinedPlaces(const ParameterManifest& manifest) {
    for (const JoinedTensor& joined : manifest.joined()) {
      if (joined.in == JoinedIn::kTree) continue;
      first[joined.ranges.front().tensor].push_back(&joined);
      for (const TensorRange& range : joined.ranges) inside.insert(range.tensor);
    }
  }
  std::map<int, std::vector<const JoinedTensor*>> first;
  std::set<int> inside;
};

/// Publishes experts one after the other, each as gate, if it has one, up, down: the order of the arena, so that
/// a load is one long run. `inner` is their gate and up, or up alone.
void publish_experts(const ParameterManifest& manifest, int inner, std::vector<PublishedTensor>& out) {
  const std::string& name = manifest[inner].name;
  const bool has_gate = name.ends_with(kGateUp);
  const std::string experts = name.substr(0, name.size() - (has_gate ? kGateUp : kUpAlone).size());
  const std::vector<const Projection*> projections =
      has_gate ? std::vector{&kGate, &kUp, &kDownOnly} : std::vector{&kUpOnly, &kDownOnly};
  for (std::int64_t expert = 0; expert < manifest[inner].shape[0]; ++expert) {
    for (const Projection* projection : projections) {
      const auto target = expert_target(manifest, {experts, expert, projection});
      SLUICE_ASSERT(target, "{} has no {}", experts, projection->name);
      out.push_back({per_expert_name(experts, expert, projection->name), *target});
    }
  }
}

/// Publishes the gates of all experts as one tensor, and their ups as another, of those that `gate_up` has of both.
void publish_by_projection(const ParameterManifest& manifest, int gate_up,
                           std::vector<PublishedTensor>& out) {
  const std::string& name = manifest[gate_up].name;
  const std::string experts = name.substr(0, name.size() - kGateUp.size());
  for (const Projection* projection : {&kGate, &kUp})
    out.push_back({experts + std::string(projection->name),
                   expert_target(manifest, {experts, {}, projection}).value()});
}

/// Whether a name is that of scales by which inputs, outputs, queries, keys, values, attention probabilities or
/// caches are rounded: "….q_proj.input_scale", "….self_attn.kv_scale", "….experts.down_proj_input_scale". By
/// the names of ModelOpt, compressed-tensors, transformers, vLLM and Quark.
bool is_activation_scale(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string_view of = name.substr(dot + 1);
  const auto drop = [&](std::string_view ending) {
    if (!of.ends_with(ending)) return false;
    of.remove_suffix(ending.size());
    return true;
  };
  if (!drop("_scale_inv") && !drop("_global_scale") && !drop("_scale")) return false;
  for (const std::string_view rounded : {"act", "input", "output", "activation", "q", "k", "v", "kv",
                                         "kv_cache", "qkv", "prob", "prob_output"})
    if (of == rounded) return true;
  return drop("_proj_input") || drop("_proj_output") || drop("_proj_activation");
}

}  // namespace

std::optional<IgnoredKey> ignored_key(std::string_view name) {
  for (const std::string_view prefix : {"vision_model.", "model.vision_model.", "model.visual.", "visual.",
                                        "model.vision_tower.", "vision_tower."})
    if (name.starts_with(prefix)) return IgnoredKey{"vision tower", false, ForeignPart::kVisionTower};
  for (const std::string_view prefix :
       {"mm_projector.", "multi_modal_projector.", "model.multi_modal_projector.", "patch_merge_mlp.",
        "vit_large_projector.", "model.embed_vision."})
    if (name.starts_with(prefix))
      return IgnoredKey{"vision tower's projector", false, ForeignPart::kVisionTower};
  for (const std::string_view prefix : {"model.audio_tower.", "model.embed_audio."})
    if (name.starts_with(prefix)) return IgnoredKey{"audio tower", false, ForeignPart::kVisionTower};
  for (const std::string_view module : {".self_attn.indexer.", ".self_attn.index_"})
    if (name.find(module) != std::string_view::npos)
      return IgnoredKey{"indexer of sparse attention", false, ForeignPart::kIndexer};
  for (const std::string_view prefix : {"mtp.", "model.mtp.", "model.mtp_"})
    if (name.starts_with(prefix))
      return IgnoredKey{std::string(kPrediction), false, ForeignPart::kMultiTokenPrediction};
  if (is_activation_scale(name)) return IgnoredKey{"scales of quantised activations and caches", true, {}};
  // Older models have a table in every layer.
  if (name.ends_with(".rotary_emb.inv_freq")) return IgnoredKey{"computed buffer", true, {}};
  return std::nullopt;
}

PerExpertCut::PerExpertCut(std::string_view name, const std::vector<std::int64_t>& shape, GateAndUp joined)
    : name_(name), expert_(0), shape_(shape) {
  const std::optional<ExpertKey> key = parse_expert_key(name);
  if (!key || shape.size() != (key->expert ? 2 : 3)) return;
  // Largest number of experts: a shape comes from a file, and must not make more names than any model has.
  constexpr std::int64_t kMaxExperts = 65'536;
  if (std::ranges::count(shape, 0) > 0 || (!key->expert && shape[0] > kMaxExperts)) return;
  const bool is_split = key->projection == &kJoined && joined == GateAndUp::kSplit;
  const std::int64_t rows = shape[shape.size() - 2];
  if (is_split && rows % 2 != 0) return;

  name_ = key->experts;
  expert_ = key->expert.value_or(0);
  projections_ = is_split ? std::vector{kGate.name, kUp.name} : std::vector{key->projection->name};
  shape_ = {rows / std::ssize(projections_), shape.back()};
  parts_ = (key->expert ? 1 : shape[0]) * std::ssize(projections_);
}

std::string PerExpertCut::name_of(std::int64_t part) const {
  if (projections_.empty()) return name_;
  const std::int64_t count = std::ssize(projections_);
  return per_expert_name(name_, expert_ + part / count, projections_[static_cast<std::size_t>(part % count)]);
}

KeyMap::KeyMap(const ParameterManifest& manifest) : manifest_(manifest) {}

std::variant<KeyTarget, IgnoredKey, UnknownKey> KeyMap::resolve(std::string_view checkpoint_name,
                                                                bool quantised) const {
  const std::string name = plain_name(checkpoint_name);
  if (const auto tensor = manifest_.find(name)) {
    const TensorInfo& info = manifest_[*tensor];
    if (!info.tied_to.empty()) return IgnoredKey{"copy of a tied tensor", true, {}};
    if (info.kind == TensorKind::kComputedBuffer) return IgnoredKey{"computed buffer", true, {}};
    if (!info.adapts.empty()) return UnknownKey{};  // adapters are not in a checkpoint of the model
    return whole(manifest_, *tensor, quantised);
  }
  if (const JoinedTensor* joined = manifest_.find_joined(name))
    return KeyTarget{joined->shape, joined->ranges};
  if (manifest_.is_in_prediction_layer(name))
    return IgnoredKey{std::string(kPrediction), false, ForeignPart::kMultiTokenPrediction};
  if (const auto key = parse_expert_key(name); key && !manifest_.has_transposed_experts())
    if (const auto target = expert_target(manifest_, *key)) return *target;
  if (auto key = ignored_key(name); key && (!key->part || manifest_.has_foreign_part(*key->part)))
    return *std::move(key);
  return UnknownKey{};
}

std::vector<PublishedTensor> KeyMap::published(ExpertLayout layout) const {
  std::vector<PublishedTensor> out;
  const JoinedPlaces joined(manifest_);
  for (const int tensor : manifest_.checkpoint_tensors()) {
    const TensorInfo& info = manifest_[tensor];
    if (joined.inside.contains(tensor)) {
      if (const auto here = joined.first.find(tensor); here != joined.first.end())
        for (const JoinedTensor* published : here->second)
          out.push_back({published->name, {published->shape, published->ranges}});
    } else if (manifest_.has_experts_by_projection() && info.name.ends_with(kGateUp)) {
      publish_by_projection(manifest_, tensor, out);
    } else if (info.role != Role::kExpert || layout == ExpertLayout::kFused ||
               manifest_.has_fused_experts()) {
      out.push_back({info.name, whole(manifest_, tensor)});
    } else if (info.name.ends_with(kUpAlone)) {  // as gate and up do
      publish_experts(manifest_, tensor, out);
    }
  }
  for (PublishedTensor& tensor : out) tensor.name = manifest_.published_name(std::move(tensor.name));
  return out;
}

}  // namespace sluice
