#include "comm/watchdog.hpp"

#include "base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>

namespace sluice {
namespace {

constexpr unsigned kSignalCallbackSeconds = 3;

std::atomic<int> alarm_exit_status{static_cast<int>(ExitCode::kInternal)};
static_assert(std::atomic<int>::is_always_lock_free);

void exit_on_alarm(int) { _exit(alarm_exit_status.load()); }

/// What the launcher says this rank is, for calls that hang before MPI can say it.
std::string rank_from_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* value = std::getenv(name)) return fmt::format("rank {}", value);
  }
  return "rank unknown";
}

}  // namespace

void exit_within(unsigned seconds, ExitCode code) noexcept {
  alarm_exit_status = static_cast<int>(code);
  struct sigaction action {};
  action.sa_handler = exit_on_alarm;
  sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  alarm(seconds);
}

Watchdog::Watchdog(double first_notice_seconds)
    : first_notice_(first_notice_seconds), rank_text_(rank_from_environment()), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::set_rank(int rank) {
  const std::lock_guard lock(mutex_);
  rank_text_ = fmt::format("rank {}", rank);
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!armed_) {
      changed_.wait(lock);
    } else if (deadline_.passed()) {
      explain_and_exit();
    } else {
      if (waited_.seconds() >= next_notice_) notice();
      changed_.wait_for(lock, Seconds(std::min(deadline_.seconds_left(), next_notice_ - waited_.seconds())));
    }
  }
}

void Watchdog::notice() {
  log::warning("still in {} on {} for {:.0f} s: another rank is missing or stuck (limit {:.0f} s)",
               deadline_.section(), rank_text_, waited_.seconds(), deadline_.limit_seconds());
  next_notice_ *= 2;
}

void Watchdog::explain_and_exit() noexcept {
  exit_within(kSignalCallbackSeconds, ExitCode::kInternal);
  try {
    log::error(
        "{} on {} has not returned within {:.1f} s: another rank is missing or stuck; this rank gives up",
        deadline_.section(), rank_text_, deadline_.limit_seconds());
  } catch (...) {
    // Nobody is left to tell; the exit status still says it.
    _exit(static_cast<int>(ExitCode::kInternal));
  }
  _exit(static_cast<int>(ExitCode::kInternal));
}

Watchdog::Guard::Guard(Watchdog& watchdog, std::string call, double limit_seconds) : watchdog_(watchdog) {
  const std::lock_guard lock(watchdog_.mutex_);
  SLUICE_ASSERT(!watchdog_.armed_, "{} is guarded while {} is", call, watchdog_.deadline_.section());
  watchdog_.deadline_ = Deadline(std::move(call), limit_seconds);
  watchdog_.armed_ = true;
  watchdog_.waited_ = {};
  watchdog_.next_notice_ = watchdog_.first_notice_;
  watchdog_.changed_.notify_all();
}

Watchdog::Guard::~Guard() {
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.armed_ = false;
}

}  // namespace sluice
