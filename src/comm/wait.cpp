#include "comm/wait.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/trace/recorder.hpp"
#include "comm/failure/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

namespace sluice {
namespace {

constexpr double kSpinSeconds = 5e-6;
constexpr double kYieldSeconds = 50e-6;
constexpr double kLostSeconds = 500e-6, kSleepsInsteadSeconds = 0.1;
constexpr double kSleepShare = 0.05, kLongestSleep = 1e-3;
// Limits of the pauses in a long wait: a sleep costs some 30 us of a core, whatever its length, 3 % of the
// core at 1 ms.
constexpr double kLongWaitSleepShare = 0.01, kLongestLongWaitSleep = 5e-3;
constexpr double kMovedSeconds = 30e-6, kMovedDivisor = 4;

/// CPU time of this thread, in seconds. Wall time would count a core that was given to others as work.
Seconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Seconds sleep_after(double quiet) {
  const double longest = std::clamp(quiet * kLongWaitSleepShare, kLongestSleep, kLongestLongWaitSleep);
  return Seconds(std::min(quiet * kSleepShare, longest));
}

/// Lets other processes run. A yield to a process that only computes may cost a slice of the scheduler,
/// milliseconds. After such a yield the shortest sleep is used for a while, since a thread that wakes up is
/// let in.
void yield_core() {
  thread_local SteadyClock::time_point sleeps_until{};
  const auto start = SteadyClock::now();
  if (start < sleeps_until) return std::this_thread::sleep_for(std::chrono::nanoseconds(1));
  std::this_thread::yield();
  const auto end = SteadyClock::now();
  if (Seconds(end - start).count() > kLostSeconds)
    sleeps_until = end + std::chrono::duration_cast<SteadyClock::duration>(Seconds(kSleepsInsteadSeconds));
}

/// Pauses between polls.
class Backoff {
 public:
  void pause() {
    const auto now = SteadyClock::now();
    Seconds quiet = now - quiet_since_;
    if ((cpu_time() - resumed_).count() > kMovedSeconds) {
      // Shortens the pauses by steps: data have moved, and more may be ready, so that sleeping would starve
      // the transfer; but if the processor was only slow for once, starting anew would poll too often.
      quiet /= kMovedDivisor;
      quiet_since_ = now - std::chrono::duration_cast<SteadyClock::duration>(quiet);
    } else if (quiet.count() > kYieldSeconds) {
      std::this_thread::sleep_for(sleep_after(quiet.count()));
    } else if (quiet.count() > kSpinSeconds) {
      yield_core();
    }
    resumed_ = cpu_time();
  }

 private:
  Seconds resumed_ = cpu_time();
  SteadyClock::time_point quiet_since_ = SteadyClock::now();
};

/// Time in which this process ran, in seconds.
class ActiveTime {
 public:
  /// Seconds so far; must be called often.
  double seconds() {
    const double now = watch_.seconds();
    if (now - last_ > kSuspendedSeconds) suspended_ += now - last_;
    last_ = now;
    return now - suspended_;
  }

 private:
  Stopwatch watch_;
  double last_ = 0, suspended_ = 0;
};

[[noreturn]] void give_up(const Pollable& work, const WaitLimit& limit, const Operation& operation,
                          double seconds) {
  const std::string missing = work.missing();
  Watchdog::locate_ranks();
  fail({ExitCode::kInternal, "comm.deadline"}, "{}: {} #{} on rank {} waited {:.1f} s, its limit, for {}",
       limit.section, operation.name, operation.sequence, operation.rank, seconds, missing);
}

class Condition final : public Pollable {
 public:
  Condition(const std::function<bool()>& is_done, const std::function<std::string()>& missing)
      : is_done_(is_done), missing_(missing) {}
  bool test() override { return is_done_(); }
  [[nodiscard]] std::string missing() const override { return missing_(); }

 private:
  const std::function<bool()>& is_done_;
  const std::function<std::string()>& missing_;
};

}  // namespace

void wait_for(Pollable& work, const WaitLimit& limit, const Operation& operation) {
  const trace::Span span(trace::Kind::kWait, operation.name, operation.sequence);
  Backoff backoff;
  ActiveTime waited;
  double next_notice = kNoticeSeconds;
  while (!work.test()) {
    const double seconds = waited.seconds();
    if (seconds >= limit.seconds) give_up(work, limit, operation, seconds);
    if (seconds >= next_notice) {
      log::warning("still in {} for {:.0f} s, waiting for {}: {} #{} (limit {:.0f} s)", limit.section,
                   seconds, work.missing(), operation.name, operation.sequence, limit.seconds);
      next_notice += kNoticeSeconds;
    }
    backoff.pause();
  }
}

void wait_for(const std::function<bool()>& is_done, const std::function<std::string()>& missing,
              const WaitLimit& limit, const Operation& operation) {
  Condition condition(is_done, missing);
  wait_for(condition, limit, operation);
}

}  // namespace sluice
