#include "export/export_tensors.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "manifest/spelling.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

namespace sluice {
namespace {

/// Type in which a tensor is written: constants, which no step moves, as parameters are; other tensors that ranks
/// hold whole stay float32, because rounding would change the choice of experts, or lose what training has changed.
DType written_dtype(const TensorInfo& tensor, DType of_parameters) {
  return tensor.kind == TensorKind::kParameter || is_constant(tensor) ? of_parameters : DType::kFloat32;
}

/// A name in its two parts: up to its layer, "…layers.3.", and the rest.
std::pair<std::string_view, std::string_view> cut_behind_layer(std::string_view name) {
  constexpr std::string_view kLayers = ".layers.";
  const std::size_t layers = name.find(kLayers);
  SLUICE_ASSERT(layers != std::string_view::npos, "tensor name {} has no layer number", name);
  const std::size_t rest = name.find('.', layers + kLayers.size()) + 1;
  return {name.substr(0, rest), name.substr(rest)};
}

/// `name` of a tensor in a layer, under the wrapper's prefix that `like` has.
std::string with_prefix_of(std::string_view like, std::string_view name) {
  return std::string(cut_behind_layer(like).first).append(cut_behind_layer(name).second);
}

/// Published expert tensors of one layer.
struct ExpertLayer {
  std::vector<PublishedTensor> tensors;
  std::set<std::string, std::less<>> names;  ///< parts of the names after "…layers.3."
  /// Whether experts are written as other tensors than the source's.
  bool is_rewritten = false;
  bool is_done = false;
};

class Lister {
 public:
  Lister(const CheckpointIndex& source, const KeyMap& keys, std::optional<ExpertLayout> experts)
      : source_(source), keys_(keys) {
    content_.source.directory = source.directory;
    content_.source.files = source.files;
    if (experts) find_rewritten_layers(*experts);
  }

  ExportContent run() {
    for (const CheckpointEntry& entry : source_.entries) {
      const auto key = keys_.resolve(entry.name);
      SLUICE_ASSERT(!std::holds_alternative<UnknownKey>(key), "tensor {} belongs to no part of the model",
                    entry.name);
      if (const auto* ignored = std::get_if<IgnoredKey>(&key)) {
        if (!ignored->redundant) copy(entry);
      } else {
        take(entry, std::get<KeyTarget>(key));
      }
    }
    return std::move(content_);
  }

 private:
  [[nodiscard]] const TensorInfo& info(const KeyTarget& target) const {
    return keys_.manifest()[target.tensor()];
  }

  void find_rewritten_layers(ExpertLayout experts) {
    for (PublishedTensor& tensor : keys_.published(experts)) {
      if (info(tensor.target).role != Role::kExpert) continue;
      ExpertLayer& layer = layers_[info(tensor.target).layer];
      layer.names.emplace(cut_behind_layer(tensor.name).second);
      layer.tensors.push_back(std::move(tensor));
    }
    for (const CheckpointEntry& entry : source_.entries) {
      const auto key = keys_.resolve(entry.name);
      const auto* target = std::get_if<KeyTarget>(&key);
      if (target == nullptr || info(*target).role != Role::kExpert) continue;
      ExpertLayer& layer = layers_[info(*target).layer];
      if (!layer.names.contains(cut_behind_layer(entry.name).second)) layer.is_rewritten = true;
    }
  }

  void copy(const CheckpointEntry& entry) {
    const int number = static_cast<int>(content_.source.entries.size());
    content_.tensors.push_back({entry.name, entry.dtype, {entry.shape, {}}, number});
    CheckpointEntry& copied = content_.source.entries.emplace_back(entry);
    if (const Encoding* encoding = source_.encoding_of(entry)) {
      copied.encoding = static_cast<int>(content_.source.encodings.size());
      content_.source.encodings.push_back(*encoding);
    }
  }

  void take(const CheckpointEntry& entry, const KeyTarget& target) {
    const auto layer = layers_.find(info(target).layer);
    const bool is_rewritten = layer != layers_.end() && layer->second.is_rewritten;
    if (is_rewritten && info(target).role == Role::kExpert) return rewrite(entry, layer->second);
    std::string name = entry.name;
    // The router is named in the same spelling as its experts.
    if (is_rewritten && info(target).role == Role::kRouter)
      name = with_prefix_of(name, keys_.manifest().published_name(info(target).name));
    content_.tensors.push_back({std::move(name), written_dtype(info(target), entry.dtype), target});
  }

  /// Writes all experts of a layer as published, under the source's prefix, in place of its first expert
  /// tensor.
  void rewrite(const CheckpointEntry& entry, ExpertLayer& layer) {
    if (std::exchange(layer.is_done, true)) return;
    for (PublishedTensor& tensor : layer.tensors)
      content_.tensors.push_back(
          {with_prefix_of(entry.name, tensor.name), entry.dtype, std::move(tensor.target)});
  }

  const CheckpointIndex& source_;
  const KeyMap& keys_;
  /// Expert tensors by layer; empty if experts are written as they were read.
  std::map<int, ExpertLayer> layers_;
  ExportContent content_;
};

/// Lists the tensors of files in their order; tensors that change are written anew.
class StoredLister {
 public:
  StoredLister(const CheckpointIndex& source, const CheckpointIndex& stored, const KeyMap& keys,
               const std::function<bool(int)>& changes)
      : source_(source), stored_(stored), keys_(keys), changes_(changes) {
    content_.source.directory = stored.directory;
    content_.source.files = stored.files;
    for (const CheckpointEntry& entry : source.entries) find_parts(entry);
  }

  ExportContent run() {
    for (const CheckpointEntry& entry : stored_.entries) {
      const auto part = parts_.find({entry.file, entry.begin});
      const bool is_known = part != parts_.end() && entry.bytes > 0;
      if (is_known && part->second.weight)
        write(entry, part->second);
      else if (!is_known || !is_stale(part->second.of))
        copy(entry);
    }
    return std::move(content_);
  }

 private:
  using Place = std::pair<int, std::int64_t>;  ///< index of a file, and a byte in it
  /// Part of an entry of the source that a stored tensor holds, with its weight if that changes.
  struct Part {
    const CheckpointEntry& of;
    StoredPart part = StoredPart::kValues;
    std::optional<KeyTarget> weight;
    int quantised = -1;
  };

  [[nodiscard]] bool changes(const KeyTarget& target) const {
    return std::ranges::any_of(target.ranges,
                               [&](const TensorRange& range) { return changes_(range.tensor); });
  }

  /// Whether an entry is a copy of a tensor that changes.
  [[nodiscard]] bool is_stale(const CheckpointEntry& entry) const {
    const auto tensor = keys_.manifest().find(plain_name(entry.name));
    if (!tensor || keys_.manifest()[*tensor].tied_to.empty()) return false;
    return changes_(*keys_.manifest().find(keys_.manifest()[*tensor].tied_to));
  }

  void find_parts(const CheckpointEntry& entry) {
    const Encoding* const encoding = source_.encoding_of(entry);
    const auto key = keys_.resolve(entry.name, encoding != nullptr);
    Part part{entry, StoredPart::kValues, {}, -1};
    if (const auto* target = std::get_if<KeyTarget>(&key); target != nullptr && changes(*target))
      part.weight = *target;
    if (part.weight && encoding != nullptr) {
      part.part = StoredPart::kCodes;
      part.quantised = quantised(entry, *encoding, *part.weight);
      Part scales = part;
      scales.part = StoredPart::kScales;
      parts_.emplace(Place{encoding->scale_file, encoding->scale_begin}, std::move(scales));
    }
    parts_.emplace(Place{entry.file, entry.begin}, std::move(part));
  }

  int quantised(const CheckpointEntry& entry, const Encoding& encoding, const KeyTarget& target) {
    if (encoding.codes != Codes::kFloat8E4M3)
      fail({ExitCode::kBadConfig, "job.not_for_model"},
           "export.format: found \"source\", expected \"plain\" because {} is {} in {} and this job changes "
           "it: only FP8 is made of changed weights. Export plain numbers, or, of adapters, these alone "
           "(export.adapters = \"keep\")",
           printable(entry.name), encoding.text(), source_.directory);
    if (source_.begins_blocks_anew(entry))
      fail(
          {ExitCode::kBadConfig, "job.not_for_model"},
          "export.format: found \"source\", expected \"plain\" because {} shares scales with another tensor in {} and "
          "this job changes it",
          printable(entry.name), source_.directory);
    content_.quantised.push_back({entry.name, target, encoding});
    return static_cast<int>(content_.quantised.size()) - 1;
  }

  void copy(const CheckpointEntry& entry) {
    content_.tensors.push_back(
        {entry.name, entry.dtype, {entry.shape, {}}, static_cast<int>(content_.source.entries.size())});
    content_.source.entries.push_back(entry);
  }

  void write(const CheckpointEntry& entry, const Part& part) {
    KeyTarget target = *part.weight;
    if (part.part == StoredPart::kScales) target = {entry.shape, {}};
    const DType dtype = part.part == StoredPart::kValues
                            ? written_dtype(keys_.manifest()[target.tensor()], entry.dtype)
                            : entry.dtype;
    content_.tensors.push_back({entry.name, dtype, std::move(target), -1, part.part, part.quantised});
  }

  const CheckpointIndex& source_;
  const CheckpointIndex& stored_;
  const KeyMap& keys_;
  const std::function<bool(int)>& changes_;
  std::map<Place, Part> parts_;
  ExportContent content_;
};

}  // namespace

ExportContent content_as_stored(const CheckpointIndex& source, const CheckpointIndex& stored,
                                const KeyMap& keys, const std::function<bool(int tensor)>& changes) {
  return StoredLister(source, stored, keys, changes).run();
}

ExportContent content_like(const CheckpointIndex& source, const KeyMap& keys,
                           std::optional<ExpertLayout> experts) {
  return Lister(source, keys, experts).run();
}

ExportContent content_of(const KeyMap& keys, ExpertLayout experts, DType dtype) {
  ExportContent content;
  for (PublishedTensor& tensor : keys.published(experts))
    content.tensors.push_back({std::move(tensor.name),
                               written_dtype(keys.manifest()[tensor.target.tensor()], dtype),
                               std::move(tensor.target)});
  return content;
}

}  // namespace sluice
