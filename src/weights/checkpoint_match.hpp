// Matching of checkpoint tensors to elements of manifest tensors: every difference is found before a byte is
// read.
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

/// Entry `entry` of an index holds elements [begin, begin + count) of a manifest tensor, row-major, as its
/// own elements from `entry_begin` on: one of the ranges of its KeyTarget.
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
    bool is_carried = false;  ///< whether an export copies these tensors as it found them
  };
  /// Matched entries in the order of the index; together every stored tensor exactly once.
  std::vector<MatchedEntry> entries;
  std::vector<MatchedEntry> buffers;                ///< matched entries of persistent buffers
  std::map<std::string, Ignored> ignored;           ///< tensors that are left alone, keyed by reason
  ExpertLayout experts = ExpertLayout::kPerExpert;  ///< layout of the experts in the checkpoint
};

/// Matched entries of index entry `entry`, which belongs where `target` says.
[[nodiscard]] std::vector<MatchedEntry> ranges_of(int entry, const KeyTarget& target);

/// What is wrong with entries that should hold each element of these tensors, in ascending order, once:
/// places are tensors, owners entries of the index.
[[nodiscard]] std::vector<Coverage::Fault> faults_of(std::span<const MatchedEntry> entries,
                                                     const ParameterManifest& manifest,
                                                     std::span<const int> tensors);

/// Moves the entries of persistent buffers to their own list.
void set_buffers_apart(CheckpointMatch& match, const ParameterManifest& manifest);

/// Holds names, shapes and element types against the manifest. Error(kBadData) listing every tensor that is
/// missing, unexpected, of another shape, of an element type that does not convert to `arena`, or there
/// twice.
[[nodiscard]] CheckpointMatch match_checkpoint(const CheckpointIndex& index, const KeyMap& keys, DType arena);

/// One line per reason for ignored tensors: "ignored 333 tensors (0.85 GB): vision tower, which is not
/// trained; …".
[[nodiscard]] std::vector<std::string> ignored_text(const CheckpointMatch& match);

}  // namespace sluice
