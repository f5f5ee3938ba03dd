// Flags by which the ranks of one machine talk when MPI can no longer be used, in memory that they share.
#pragma once

#include <atomic>

namespace sluice {

/// All zero at first.
struct NodeFlags {
  std::atomic<int> reported{0};  ///< whether a rank has explained the end of the job
  std::atomic<int> recorded{0};  ///< whether a rank writes the cause into the run directory
  std::atomic<int> written{0};   ///< whether the run directory holds the cause
  std::atomic<int> stalled{0};   ///< whether a limit has passed, so that every rank tells its position
  std::atomic<int> located{0};   ///< ranks that have told their position
  std::atomic<int> crashed{0};   ///< 256 * (rank + 1) + signal of a rank that crashed
};
static_assert(std::atomic<int>::is_always_lock_free, "shared between processes");

}  // namespace sluice
