#include "comm/failure/watchdog.hpp"

#include "base/log.hpp"
#include "comm/position.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <utility>

namespace sluice {
namespace {

constexpr unsigned kSignalCallbackSeconds = 3, kStallSeconds = 10;
constexpr double kTickSeconds = 0.1, kLocateSeconds = 2;
constexpr std::size_t kShownOperations = 16;

/// Sections in which a rank counts as stuck if it neither waits nor begins an operation for the limit. In
/// other sections a single task, such as tokenizing a text, may take hours.
constexpr std::array<std::string_view, 8> kWatched{"start", "load",   "step",    "evaluate",
                                                   "save",  "export", "restore", "rewind"};

std::atomic<Watchdog*> the_watchdog{nullptr};

std::atomic<int> alarm_exit_status{static_cast<int>(ExitCode::kInternal)};
static_assert(std::atomic<int>::is_always_lock_free);

void exit_on_alarm(int) { _exit(alarm_exit_status.load()); }

/// Rank according to the launcher's environment, for calls that hang before MPI knows it.
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

void cancel_exit() noexcept { alarm(0); }

Watchdog::Watchdog(double notice_seconds)
    : notice_seconds_(notice_seconds), rank_text_(rank_from_environment()), thread_([this] { run(); }) {
  the_watchdog = this;
}

Watchdog::~Watchdog() {
  the_watchdog = nullptr;
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

void Watchdog::share(NodeFlags* flags, int ranks) {
  const std::lock_guard lock(mutex_);
  flags_ = flags == nullptr ? &own_flags_ : flags;
  ranks_ = flags == nullptr ? 1 : ranks;
}

void Watchdog::set_section(std::string_view section, double limit_seconds) {
  const std::lock_guard lock(mutex_);
  section_ = section;
  gives_up_ = false;
  section_limit_ = std::ranges::find(kWatched, section) == kWatched.end() ? 0 : limit_seconds;
}

void Watchdog::on_stall(std::function<void(const Outcome&)> last_words) {
  const std::lock_guard lock(mutex_);
  last_words_ = std::move(last_words);
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  Stopwatch since_look;
  while (!stopping_) {
    changed_.wait_for(lock, Seconds(kTickSeconds));
    look(since_look.seconds());
    since_look.restart();
  }
}

void Watchdog::look(double slept) {
  if (slept > kSuspendedSeconds) {
    suspended_ += slept;
    position::forgive(slept);
  }
  if (flags_.load()->stalled != 0 && !std::exchange(is_located_, true)) locate();
  if (armed_)
    look_at_call();
  else if (section_limit_ > 0)
    look_at_section();
}

void Watchdog::look_at_call() {
  const double waited = waited_.seconds() - suspended_;
  if (waited >= call_limit_) explain_and_exit();
  if (waited < next_notice_) return;
  log::warning("still in {} on {} for {:.0f} s: another rank is missing or stuck (limit {:.0f} s)", call_,
               rank_text_, waited, call_limit_);
  next_notice_ += notice_seconds_;
}

void Watchdog::look_at_section() {
  // Time in seconds by which the watchdog is later than the wait of an operation with the same limit, which
  // knows more and may take its time to explain.
  constexpr double kLater = 0.5;
  const double later = kLater + (gives_up_ ? kLocateSeconds : 0);
  const double seconds = position::seconds_since_progress();
  if (seconds >= section_limit_ + later) end_stalled(seconds);
}

/// Writes this rank's position and stack to stderr and its log.
void Watchdog::locate() noexcept {
  try {
    std::string stack;
    for (const std::string& line : stack_.lines()) stack += "\n    " + line;
    log::error(
        "{} is in {}; {:.1f} s have passed since then\n  last operations, newest first: {}\n  stack: {}",
        rank_text_, position::short_text(), position::seconds_since_progress(),
        position::operations_text(kShownOperations),
        stack.empty() ? "the thread did not answer in time" : stack);
    log::debug("last operations, newest first: {}", position::operations_text(position::kRemembered));
  } catch (...) {  // writing to the log allocates memory, but stderr does not
    constexpr std::string_view kText = "sluice: too little memory is left to tell where this rank is\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  }
  ++flags_.load()->located;
}

void Watchdog::await_locations() noexcept {
  const Stopwatch waited;
  while (flags_.load()->located < ranks_ && waited.seconds() < kLocateSeconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void Watchdog::locate_ranks() noexcept {
  Watchdog* const watchdog = the_watchdog;
  if (watchdog == nullptr) return;
  watchdog->gives_up_ = true;
  watchdog->flags_.load()->stalled = 1;
  watchdog->await_locations();
}

void Watchdog::explain_and_exit() noexcept {
  exit_within(kSignalCallbackSeconds, ExitCode::kInternal);
  try {
    log::error(
        "{} on {} has not returned within {:.1f} s: another rank is missing or stuck; this rank gives "
        "up [comm.deadline]",
        call_, rank_text_, call_limit_);
  } catch (...) {
    // Nobody is left to tell; the exit status still tells the failure.
    _exit(static_cast<int>(ExitCode::kInternal));
  }
  _exit(static_cast<int>(ExitCode::kInternal));
}

void Watchdog::end_stalled(double seconds) noexcept {
  exit_within(kStallSeconds, ExitCode::kInternal);
  try {
    flags_.load()->stalled = 1;
    if (!std::exchange(is_located_, true)) locate();
    await_locations();
    const Outcome outcome{
        {ExitCode::kInternal, "comm.deadline"},
        fmt::format(
            "{}: {} has computed for {:.1f} s without an end, longer than its limit of {:g} s, after {}. It "
            "is stuck, or far slower than all before; its stack is above",
            section_, rank_text_, seconds, section_limit_, position::operations_text(1))};
    if (last_words_)
      last_words_(outcome);
    else
      log::error("{}", outcome.text_with_id());
  } catch (...) {
    // Nobody is left to tell; the exit status still tells the failure.
    _exit(static_cast<int>(ExitCode::kInternal));
  }
  _exit(static_cast<int>(ExitCode::kInternal));
}

std::optional<Watchdog::Guard> Watchdog::guard(std::string call, double limit_seconds) {
  Watchdog* const watchdog = the_watchdog;
  if (watchdog == nullptr) return std::nullopt;
  return std::optional<Guard>(std::in_place, *watchdog, std::move(call), limit_seconds);
}

Watchdog::Guard::Guard(Watchdog& watchdog, std::string call, double limit_seconds) : watchdog_(watchdog) {
  const std::lock_guard lock(watchdog_.mutex_);
  SLUICE_ASSERT(!watchdog_.armed_, "call {} cannot be guarded: {} is guarded already", call, watchdog_.call_);
  watchdog_.call_ = std::move(call);
  watchdog_.call_limit_ = limit_seconds;
  watchdog_.armed_ = true;
  watchdog_.waited_.restart();
  watchdog_.suspended_ = 0;
  watchdog_.next_notice_ = watchdog_.notice_seconds_;
}

Watchdog::Guard::~Guard() {
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.armed_ = false;
  position::forgive(watchdog_.waited_.seconds());
}

}  // namespace sluice
