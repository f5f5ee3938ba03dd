// Plan of the units that lie on a rank's disk while they are not in use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {

struct OffloadedUnit {
  bool weights = false;
  bool state = false;  ///< whether the optimizer's state lies on a disk
  [[nodiscard]] bool any() const { return weights || state; }
};

/// Bytes per read from the files that a checkpoint was published in.
inline constexpr std::int64_t kSourceReadBytes = std::int64_t{2} * 1024 * 1024;

/// Units of one rank that lie on a disk; all bytes are the rank's.
struct OffloadPlan {
  /// Units by their number in the shard plan; empty if nothing lies on a disk.
  std::vector<OffloadedUnit> units;
  std::int64_t weight_bytes = 0;
  std::int64_t state_bytes = 0;
  /// Bytes of memory for offloaded units at once: those in use, those being read ahead, and those being
  /// written.
  std::int64_t buffer_bytes = 0;
  std::int64_t step_read_bytes = 0;
  std::int64_t step_written_bytes = 0;

  /// The least seconds that a step takes to read and write, at the same time and each at the disk's rate
  /// (bytes per second).
  [[nodiscard]] double step_seconds(std::int64_t disk_rate) const {
    return static_cast<double>(std::max(step_read_bytes, step_written_bytes)) /
           static_cast<double>(disk_rate);
  }
  [[nodiscard]] std::int64_t file_bytes() const { return weight_bytes + state_bytes; }
};

}  // namespace sluice
