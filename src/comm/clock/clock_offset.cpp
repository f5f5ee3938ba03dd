#include "comm/clock/clock_offset.hpp"

#include "base/clock.hpp"

#include <array>
#include <limits>

namespace sluice {
namespace {

constexpr int kRounds = 32, kTag = 11;
using Nanoseconds = std::int64_t;

Nanoseconds now() { return nanoseconds_of(SteadyClock::now().time_since_epoch()); }

template <class T>
void send(Communicator& comm, const T& value, int to) {
  comm.send(&value, sizeof value, to, kTag).wait();
}

template <class T>
T receive(Communicator& comm, int from) {
  T value{};
  comm.receive(&value, sizeof value, from, kTag).wait();
  return value;
}

/// Rank 0's side of the exchange with one rank.
ClockOffset ask(Communicator& comm, int rank) {
  ClockOffset best{.nanoseconds = 0, .round_trip_ns = std::numeric_limits<Nanoseconds>::max()};
  for (int round = 0; round < kRounds; ++round) {
    const Nanoseconds asked = now();
    send(comm, asked, rank);
    const auto theirs = receive<Nanoseconds>(comm, rank);
    const Nanoseconds trip = now() - asked;
    if (trip < best.round_trip_ns) best = {.nanoseconds = theirs - (asked + trip / 2), .round_trip_ns = trip};
  }
  send(comm, best, rank);
  return best;
}

ClockOffset answer(Communicator& comm) {
  for (int round = 0; round < kRounds; ++round) {
    static_cast<void>(receive<Nanoseconds>(comm, 0));
    send(comm, now(), 0);
  }
  return receive<ClockOffset>(comm, 0);
}

}  // namespace

ClockOffset measure_clock_offset(Communicator& comm) {
  comm.barrier();  // waits for ranks that are still on their way, which would make the exchange slow
  ClockOffset own;
  if (comm.rank() == 0)
    for (int rank = 1; rank < comm.size(); ++rank) static_cast<void>(ask(comm, rank));
  else
    own = answer(comm);
  return own;
}

}  // namespace sluice
