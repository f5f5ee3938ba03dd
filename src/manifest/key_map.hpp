// Maps names of checkpoint tensors to manifest tensors. A published name stands for a whole manifest tensor,
// for gate, up or down projections of one or every expert in fused tensors, or for rows of several tensors
// that are published joined.
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

/// Layout of the experts in a checkpoint.
enum class ExpertLayout : std::uint8_t {
  kPerExpert,  ///< `experts.3.gate_proj.weight`, `.up_proj.weight`, `.down_proj.weight`
  kFused,      ///< `experts.gate_up_proj`, `experts.down_proj`
};

/// Place of a checkpoint tensor in the manifest: its elements fill the ranges one after the other. There is
/// one range, except for a JoinedTensor and for a tensor with the gates or ups of all experts.
struct KeyTarget {
  std::vector<std::int64_t> shape;  ///< shape of the checkpoint tensor
  std::vector<TensorRange> ranges;
  /// Whether each matrix of the last two dims is the transpose of the manifest's.
  bool is_transposed = false;

  /// The manifest tensor of which the first range is part; other ranges are of tensors with the same role,
  /// layer and kind.
  [[nodiscard]] int tensor() const { return ranges.front().tensor; }
  [[nodiscard]] std::int64_t element_count() const { return sluice::element_count(shape); }
};

/// A checkpoint tensor that training does not need.
struct IgnoredKey {
  std::string reason;
  /// Whether it follows from other tensors (ties, computed buffers), or has no use without quantisation.
  bool redundant = false;
  /// Part of the checkpoint that the model does not use and to which the tensor belongs, if any.
  std::optional<ForeignPart> part{};
};
struct UnknownKey {};

/// A checkpoint tensor as it is published.
struct PublishedTensor {
  std::string name;
  KeyTarget target;
};

/// Looks up a checkpoint tensor that training does not need, by its plain_name(); foreign parts are those of
/// any architecture.
[[nodiscard]] std::optional<IgnoredKey> ignored_key(std::string_view name);

/// Whether gate and up of an expert that are joined in one tensor are split: if their rows alternate they
/// cannot be.
enum class GateAndUp : std::uint8_t { kSplit, kJoined };

/// How a tensor is cut into the tensors of the per-expert layout: experts that are fused ([E, 2I, H], [E, I,
/// H] or [E, H, I]) or have gate and up joined ([2I, H]) are cut into each expert's projections; any other
/// tensor is a single part. All parts have one shape, follow each other and make up the tensor.
class PerExpertCut {
 public:
  /// `name` must be a plain_name().
  PerExpertCut(std::string_view name, const std::vector<std::int64_t>& shape,
               GateAndUp joined = GateAndUp::kSplit);

  [[nodiscard]] std::int64_t parts() const { return parts_; }
  /// Shape of each part.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] std::string name_of(std::int64_t part) const;

 private:
  std::string name_;                           ///< name of the tensor, or the prefix of its experts' names
  std::int64_t expert_;                        ///< number of the first expert
  std::vector<std::string_view> projections_;  ///< projections of each expert; empty if the tensor is not cut
  std::vector<std::int64_t> shape_;
  std::int64_t parts_ = 1;
};

/// Maps names of checkpoint tensors for one manifest, which must outlive the object.
class KeyMap {
 public:
  explicit KeyMap(const ParameterManifest& manifest);

  /// Resolves the name of a checkpoint tensor. Accepts the prefixes `model.`, `model.language_model.` and
  /// `language_model.model.`; experts one by one or fused, with gate and up joined or apart; every
  /// ExpertSpelling; and joined tensors, or those from which they are joined. `quantised`: the tensor has
  /// codes, which are never transposed.
  [[nodiscard]] std::variant<KeyTarget, IgnoredKey, UnknownKey> resolve(std::string_view checkpoint_name,
                                                                        bool quantised = false) const;

  /// Every tensor of a checkpoint in published order (embedding, layers, norm, head; ties left out), under
  /// published names; experts that have no names one by one are fused, or by projection, in either layout. Together
  /// they have each stored tensor of the manifest exactly once.
  [[nodiscard]] std::vector<PublishedTensor> published(ExpertLayout layout) const;

  [[nodiscard]] const ParameterManifest& manifest() const { return manifest_; }

 private:
  const ParameterManifest& manifest_;
};

}  // namespace sluice
