// Flags in memory shared by the ranks of one machine, for when MPI can no longer be used.
#pragma once

#include <atomic>

namespace sluice {

/// Flags of a machine; all are zero at first.
struct NodeFlags {
  std::atomic<int> reported{0};  ///< whether a rank has reported why the job ends
  std::atomic<int> recorded{0};  ///< whether a rank is writing the cause to the run directory
  std::atomic<int> written{0};   ///< whether the run directory holds the cause
  std::atomic<int> stalled{0};   ///< whether a limit has passed, so that every rank tells its position
  std::atomic<int> located{0};   ///< ranks that have told their position
  std::atomic<int> crashed{0};   ///< 256 * (rank + 1) + signal of a rank that crashed; 0: none
};
static_assert(std::atomic<int>::is_always_lock_free, "shared between processes");

}  // namespace sluice
