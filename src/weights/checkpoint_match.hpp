// Which checkpoint tensor fills which elements of which manifest tensor: every difference found before a byte
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

/// Entry `entry` of an index holds elements [begin, begin + count) of a manifest tensor, row-major, as its
/// own elements from `entry_begin` on: one of the ranges of its KeyTarget.
struct MatchedEntry {
  int entry = 0;
  int tensor = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t entry_begin = 0;
  bool is_transposed = false;  ///< each matrix of the entry's last two dims is, to that of the tensor
};

struct CheckpointMatch {
  struct Ignored {
    int tensors = 0;
    std::int64_t bytes = 0;
    bool is_carried = false;  ///< an export has these tensors, as it found them
  };
  std::vector<MatchedEntry>
      entries;  ///< in the order of the index; together every stored tensor exactly once
  std::vector<MatchedEntry> buffers;                ///< the same of every persistent buffer
  std::map<std::string, Ignored> ignored;           ///< by reason
  ExpertLayout experts = ExpertLayout::kPerExpert;  ///< how the checkpoint writes its experts
};

/// What entry `entry` is, which belongs where `target` says.
[[nodiscard]] std::vector<MatchedEntry> ranges_of(int entry, const KeyTarget& target);

/// What is wrong with entries that should hold each element of these tensors, in ascending order, once: places are tensors, owners entries
/// of the index.
[[nodiscard]] std::vector<Coverage::Fault> faults_of(std::span<const MatchedEntry> entries,
                                                     const ParameterManifest& manifest,
                                                     std::span<const int> tensors);

/// Moves the entries of persistent buffers to their own list.
void set_buffers_apart(CheckpointMatch& match, const ParameterManifest& manifest);

/// Holds names, shapes and element types against the manifest. Error(kBadData) listing every tensor that is
/// missing, unexpected, of another shape, of an element type that does not convert to `arena`, or there
/// twice.
[[nodiscard]] CheckpointMatch match_checkpoint(const CheckpointIndex& index, const KeyMap& keys, DType arena);

/// One line per reason for ignored tensors: "ignored 333 tensors (0.85 GB): vision tower, which is not trained; …".
[[nodiscard]] std::vector<std::string> ignored_text(const CheckpointMatch& match);

}  // namespace sluice
