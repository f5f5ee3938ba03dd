// Parts of a checkpoint's tensors in a form that all checkpoints of a model share: each tensor of the
// manifest, and each projection of experts, however they are published.
#pragma once

#include "manifest/manifest.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Range of a part: `count` elements of an entry, from `entry_begin` on, are elements of the part from
/// `part_begin` on.
struct PartRange {
  std::int64_t entry_begin = 0;
  std::int64_t part_begin = 0;
  std::int64_t count = 0;
};

/// A tensor of the content, or the part of it that one entry holds.
struct ContentPart {
  /// Name in the per-expert layout; "NAME[12:34]" if the entry holds only these elements.
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<PartRange> runs;  ///< ranges that make up the part, in its order
  /// Index in the manifest of the tensor at whose element `begin` the part begins; -1: none.
  int tensor = -1;
  std::int64_t begin = 0;
  bool is_transposed = false;  ///< whether the part, a matrix, is the transpose of its single range

  [[nodiscard]] std::int64_t count() const { return element_count(shape); }
};

/// Parts of an entry by its name and shape alone.
[[nodiscard]] std::vector<ContentPart> content_parts(const CheckpointEntry& entry);
/// Parts of an entry that holds `ranges` of the manifest's tensors. Gate and up of an expert are one part if
/// checkpoints of the model have them transposed, because their rows may alternate.
[[nodiscard]] std::vector<ContentPart> content_parts(const ParameterManifest& manifest,
                                                     std::span<const MatchedEntry> ranges);

}  // namespace sluice
