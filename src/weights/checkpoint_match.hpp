// Matching of checkpoint tensors with elements of manifest tensors: every difference is found before a byte
// is read.
#pragma once

#include "base/boxes/coverage.hpp"
#include "manifest/key_map.hpp"
#include "weights/checkpoint_index.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A matched range: elements of index entry `entry` from `entry_begin` on are elements [begin, begin + count)
/// of a manifest tensor, row-major. It is one of the ranges of the entry's KeyTarget.
struct MatchedEntry {
  int entry = 0;
  int tensor = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t entry_begin = 0;
  /// Whether each matrix of the entry's last two dims is the transpose of the tensor's.
  bool is_transposed = false;
};

/// Result of matching a checkpoint with a manifest.
struct CheckpointMatch {
  struct Ignored {
    int tensors = 0;
    std::int64_t bytes = 0;
    bool is_carried = false;  ///< whether an export copies these tensors unchanged
  };
  /// Matched ranges in the order of the index; together they have every stored tensor exactly once.
  std::vector<MatchedEntry> entries;
  std::vector<MatchedEntry> buffers;                ///< matched ranges of persistent buffers
  std::map<std::string, Ignored> ignored;           ///< tensors that are not loaded, by the reason
  ExpertLayout experts = ExpertLayout::kPerExpert;  ///< layout of the experts in the checkpoint
};

/// Matched ranges of index entry `entry`, whose target is `target`.
[[nodiscard]] std::vector<MatchedEntry> ranges_of(int entry, const KeyTarget& target);

/// Faults of entries that must hold each element of the given tensors exactly once: places are tensors,
/// owners are entries of the index.
[[nodiscard]] std::vector<Coverage::Fault> faults_of(std::span<const MatchedEntry> entries,
                                                     const ParameterManifest& manifest,
                                                     std::span<const int> tensors);

/// Moves the entries of persistent buffers to their own list.
void set_buffers_apart(CheckpointMatch& match, const ParameterManifest& manifest);

/// Compares names, shapes and element types with the manifest. Error(kBadData) with every tensor that is
/// missing, unexpected, there twice, of another shape, or of an element type that does not convert to
/// `arena`.
[[nodiscard]] CheckpointMatch match_checkpoint(const CheckpointIndex& index, const KeyMap& keys, DType arena);

/// Lines about tensors that are not loaded, one per reason: "ignored 333 tensors (0.85 GB): vision tower,
/// which is not trained; …".
[[nodiscard]] std::vector<std::string> ignored_text(const CheckpointMatch& match);

}  // namespace sluice
