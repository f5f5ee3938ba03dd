// Parts of a checkpoint's tensors in the form that all checkpoints of a model have in common: each tensor of
// the manifest, for experts each projection, however they are published.
#pragma once

#include "manifest/manifest.hpp"
#include "weights/checkpoint_index.hpp"
#include "weights/checkpoint_match.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// `count` elements of an entry from `entry_begin` on, which are those of a part from `part_begin` on.
struct PartRange {
  std::int64_t entry_begin = 0;
  std::int64_t part_begin = 0;
  std::int64_t count = 0;
};

/// A tensor of the content, or as much of it as one entry holds.
struct ContentPart {
  /// Name in the per-expert layout; "NAME[12:34]" where the entry holds these elements alone.
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<PartRange> runs;  ///< all of the part, in its order
  /// Index in the manifest of the tensor whose element `begin` the part begins at; -1: none.
  int tensor = -1;
  std::int64_t begin = 0;
  bool is_transposed = false;  ///< whether the part, a matrix, is the transpose of its one run

  [[nodiscard]] std::int64_t count() const { return element_count(shape); }
};

/// The parts of an entry by its name and shape alone.
[[nodiscard]] std::vector<ContentPart> content_parts(const CheckpointEntry& entry);
/// Parts of an entry that holds `ranges` of the manifest's tensors. Gate and up of an expert are one part
/// where checkpoints of the model have them transposed, since their rows may alternate.
[[nodiscard]] std::vector<ContentPart> content_parts(const ParameterManifest& manifest,
                                                     std::span<const MatchedEntry> ranges);

}  // namespace sluice
