// Checkpoint names <-> manifest tensors. A published name stands for a contiguous range of one manifest
// tensor: all of it, or one expert's gate, up or down projection inside the fused expert tensors.
#pragma once

#include "manifest/manifest.hpp"

#include <cstdint>
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

/// Where the elements of one checkpoint tensor belong: elements [begin, begin + count) of the manifest
/// tensor, row-major.
struct KeyTarget {
  int tensor = 0;
  std::int64_t begin = 0;
  std::vector<std::int64_t> shape;  ///< of the checkpoint tensor; its product is the count
};

/// A name that training does not need (vision tower, multi-token prediction, stored copies of computed
/// buffers).
struct IgnoredKey {
  std::string reason;
};
struct UnknownKey {};

/// One tensor of a checkpoint as it is published.
struct PublishedTensor {
  std::string name;
  KeyTarget target;
};

/// Maps names for one manifest. Holds a reference to the manifest, which must outlive it.
class KeyMap {
 public:
  explicit KeyMap(const ParameterManifest& manifest);

  /// Accepts the prefixes `model.`, `model.language_model.` and `language_model.model.`, per-expert and fused
  /// experts.
  [[nodiscard]] std::variant<KeyTarget, IgnoredKey, UnknownKey> resolve(
      std::string_view checkpoint_name) const;

  /// Every tensor of a checkpoint in published order (embedding, layers, norm, head; ties left out). Together
  /// they cover each stored tensor of the manifest exactly once.
  [[nodiscard]] std::vector<PublishedTensor> published(ExpertLayout layout) const;

  [[nodiscard]] const ParameterManifest& manifest() const { return manifest_; }

 private:
  const ParameterManifest& manifest_;
};

}  // namespace sluice
