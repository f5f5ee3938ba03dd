// Time on the steady clock: stopwatches and deadlines. Wall time never decides anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice {

using SteadyClock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// A duration of the steady clock in nanoseconds.
[[nodiscard]] inline std::int64_t nanoseconds_of(SteadyClock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

/// Measures the seconds since its construction or restart().
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const { return Seconds(SteadyClock::now() - start_).count(); }
  void restart() { start_ = SteadyClock::now(); }

 private:
  SteadyClock::time_point start_ = SteadyClock::now();
};

/// A point in time, some seconds from now.
class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds))) {}

  [[nodiscard]] bool passed() const { return SteadyClock::now() >= end_; }
  [[nodiscard]] double seconds_left() const { return Seconds(end_ - SteadyClock::now()).count(); }

 private:
  SteadyClock::time_point end_;
};

/// The present time in UTC, "2026-11-21T15:04:05Z", for files and logs.
[[nodiscard]] std::string utc_now();

}  // namespace sluice
