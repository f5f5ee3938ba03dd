// Offsets between the steady clocks of ranks, which on different machines started at different times.
#pragma once

#include "comm/communicator.hpp"

#include <cstdint>

namespace sluice {

/// Offset of this rank's steady clock from rank 0's, in nanoseconds.
struct ClockOffset {
  std::int64_t nanoseconds = 0;  ///< this rank's steady clock minus rank 0's
  /// Shortest round trip of a message between the two ranks, in nanoseconds; the offset is exact to half of
  /// it.
  std::int64_t round_trip_ns = 0;
};

/// Collective over `comm`, whose ranks take turns: 32 round trips for each rank, some milliseconds on free
/// cores. Rank 0 asks each rank for its time; the answer with the shortest round trip counts, and is dated
/// halfway between question and answer (Cristian, "Probabilistic clock synchronization", 1989).
[[nodiscard]] ClockOffset measure_clock_offset(Communicator& comm);

}  // namespace sluice
