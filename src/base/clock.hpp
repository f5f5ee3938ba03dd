// Time on the steady clock: stopwatches and deadlines. Wall time never decides anything.
#pragma once

#include <chrono>
#include <string>

namespace sluice {

using SteadyClock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const { return Seconds(SteadyClock::now() - start_).count(); }
  void restart() { start_ = SteadyClock::now(); }

 private:
  SteadyClock::time_point start_ = SteadyClock::now();
};

/// A point in time after which waiting is an error, with the name of what is waited for.
class Deadline {
 public:
  Deadline(std::string section, double limit_seconds)
      : section_(std::move(section)),
        limit_seconds_(limit_seconds),
        end_(SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(Seconds(limit_seconds))) {
  }

  [[nodiscard]] bool passed() const { return SteadyClock::now() >= end_; }
  [[nodiscard]] const std::string& section() const { return section_; }
  [[nodiscard]] double limit_seconds() const { return limit_seconds_; }
  [[nodiscard]] double seconds_left() const { return Seconds(end_ - SteadyClock::now()).count(); }

 private:
  std::string section_;
  double limit_seconds_;
  SteadyClock::time_point end_;
};

/// "2026-11-21T15:04:05Z", for files and logs.
[[nodiscard]] std::string utc_now();

}  // namespace sluice
