// How far the steady clocks of ranks are apart, which on different machines have begun at different times.
#pragma once

#include "comm/communicator.hpp"

#include <cstdint>

namespace sluice {

/// Offset of this rank's steady clock from rank 0's.
struct ClockOffset {
  std::int64_t nanoseconds = 0;  ///< this rank's steady clock minus rank 0's
  /// The shortest question and answer between the two, in nanoseconds: the offset is known to half of it.
  std::int64_t round_trip_ns = 0;
};

/// Collective over `comm`, whose ranks wait for each other's turn: 32 messages there and back for each rank,
/// some milliseconds where cores are free. Rank 0 asks each for its time; the answer with the shortest way
/// counts, halfway between question and answer (Cristian, "Probabilistic clock synchronization", 1989).
[[nodiscard]] ClockOffset measure_clock_offset(Communicator& comm);

}  // namespace sluice
