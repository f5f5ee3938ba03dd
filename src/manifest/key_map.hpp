// Checkpoint names <-> manifest tensors. A published name stands for all of one manifest tensor, for one
// expert's or every expert's gate, up or down projections inside the fused expert tensors, or for rows of
// several tensors that are published joined.
#pragma once

#include "manifest/manifest.hpp"
#include "manifest/spelling.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace sluice {

/// How the experts of a checkpoint are written.
enum class ExpertLayout : std::uint8_t {
  kPerExpert,  ///< `experts.3.gate_proj.weight`, `.up_proj.weight`, `.down_proj.weight`
  kFused,      ///< `experts.gate_up_proj`, `experts.down_proj`
};

/// Place of one checkpoint tensor in the manifest: its elements fill the ranges one after the other. There is
/// one range, except for a JoinedTensor and for a tensor of all experts' gates or ups.
struct KeyTarget {
  std::vector<std::int64_t> shape;  ///< shape of the checkpoint tensor
  std::vector<TensorRange> ranges;
  /// Whether each matrix of the last two dims is the transpose of the manifest tensor's.
  bool is_transposed = false;

  /// A manifest tensor that it fills, or fills a part of; the others are of the same role, layer and kind.
  [[nodiscard]] int tensor() const { return ranges.front().tensor; }
  [[nodiscard]] std::int64_t element_count() const { return sluice::element_count(shape); }
};

/// A name that training does not need.
struct IgnoredKey {
  std::string reason;
  bool redundant =
      false;  ///< follows from other tensors (ties, computed buffers), or has no use without quantisation
  /// Part of the checkpoint that the model does without, if the entry is in one.
  std::optional<ForeignPart> part{};
};
struct UnknownKey {};

/// One tensor of a checkpoint as it is published.
struct PublishedTensor {
  std::string name;
  KeyTarget target;
};

/// Checkpoint tensors that training does not need, by their plain_name(); foreign parts are those of any
/// architecture.
[[nodiscard]] std::optional<IgnoredKey> ignored_key(std::string_view name);

/// What becomes of the gate and up of an expert that are joined in one tensor: where their rows alternate
/// they cannot be split.
enum class GateAndUp : std::uint8_t { kSplit, kJoined };

/// How a tensor is cut into those of the per-expert layout: experts that are fused ([E, 2I, H], [E, I, H] or
/// [E, H, I]) or have gate and up joined ([2I, H]) into each expert's projections; any other tensor is its
/// own only part. The parts are of one shape, follow each other and make up the tensor.
class PerExpertCut {
 public:
  /// `name` is a plain_name().
  PerExpertCut(std::string_view name, const std::vector<std::int64_t>& shape,
               GateAndUp joined = GateAndUp::kSplit);

  [[nodiscard]] std::int64_t parts() const { return parts_; }
  /// Shape of each part.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] std::string name_of(std::int64_t part) const;

 private:
  std::string name_;                           ///< name of the tensor, or the prefix of its experts' names
  std::int64_t expert_;                        ///< number of the first expert
  std::vector<std::string_view> projections_;  ///< projections of each expert; none where the tensor is whole
  std::vector<std::int64_t> shape_;
  std::int64_t parts_ = 1;
};

/// Maps names for one manifest. Holds a reference to the manifest, which must outlive it.
class KeyMap {
 public:
  explicit KeyMap(const ParameterManifest& manifest);

  /// Accepts the prefixes `model.`, `model.language_model.` and `language_model.model.`; experts one by one
  /// or fused, and in both their gate and up projections joined or apart; every ExpertSpelling; and joined
  /// tensors, or those that they are joined from. `quantised`: it stands for codes, which are never
  /// transposed.
  [[nodiscard]] std::variant<KeyTarget, IgnoredKey, UnknownKey> resolve(std::string_view checkpoint_name,
                                                                        bool quantised = false) const;

  /// Every tensor of a checkpoint in published order (embedding, layers, norm, head; ties left out), under
  /// the manifest's published names; transposed experts are fused in either layout. Together they cover each
  /// stored tensor of the manifest exactly once.
  [[nodiscard]] std::vector<PublishedTensor> published(ExpertLayout layout) const;

  [[nodiscard]] const ParameterManifest& manifest() const { return manifest_; }

 private:
  const ParameterManifest& manifest_;
};

}  // namespace sluice
