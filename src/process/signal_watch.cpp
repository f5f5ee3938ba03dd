#include "process/signal_watch.hpp"

#include "comm/failure/watchdog.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

constexpr int kNoStepEnded = -1;

constexpr std::array kRequests{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};

/// Signal that ends the watch; no program sends it.
int stop_signal() { return SIGRTMIN; }

bool is_ignored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t watched_signals() {
  sigset_t signals = request_signals();
  sigaddset(&signals, stop_signal());
  return signals;
}

/// Ends the process by the signal's default action.
void let_happen(int number) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  ::signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::kill(::getpid(), number);
}

}  // namespace

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

sigset_t request_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kRequests)
    if (!is_ignored(number)) sigaddset(&signals, number);
  return signals;
}

std::vector<int> ignored_requests() {
  std::vector<int> numbers;
  std::ranges::copy_if(kRequests, std::back_inserter(numbers), is_ignored);
  return numbers;
}

bool repeats_request(int number, int request, double seconds_since) {
  constexpr double kSeconds = 3;
  const auto may_come_twice = [](int one) { return one == SIGTERM || one == SIGHUP; };
  if (number == SIGXCPU) return true;
  return may_come_twice(number) && may_come_twice(request) && seconds_since < kSeconds;
}

SignalWatch::SignalWatch() : signals_(watched_signals()) {
  ::signal(SIGPIPE, SIG_IGN);
  pthread_sigmask(SIG_BLOCK, &signals_, &mask_before_);
  thread_ = std::thread([this] { run(); });
}

SignalWatch::~SignalWatch() {
  pthread_kill(thread_.native_handle(), stop_signal());
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void SignalWatch::run() {
  for (;;) {
    const int number = next_signal();
    if (number == stop_signal()) return;
    if (number == kNoStepEnded) {
      set_exit_code(ExitCode::kInternal);
      end(SIGTERM);
    }
    if (!take_as_request(number)) end(number);
  }
}

/// Waits for the next signal; kNoStepEnded if the step during which SIGTERM came has not ended in time.
int SignalWatch::next_signal() {
  for (;;) {
    const timespec pause{0, 100'000'000};
    const bool waits_for_step = requested_ == SIGTERM && !answered_;
    siginfo_t ignored;
    const int number =
        waits_for_step ? sigtimedwait(&signals_, &ignored, &pause) : sigwaitinfo(&signals_, &ignored);
    if (number > 0) return number;
    if (waits_for_step && !answered_ && since_request_.seconds() > patience_seconds_) return kNoStepEnded;
  }
}

void SignalWatch::end(int number) {
  constexpr unsigned kSeconds = 5;  // seconds, longer than mpirun waits between SIGTERM and SIGKILL
  const std::lock_guard lock(mutex_);
  const auto code = exit_code_.value_or(static_cast<ExitCode>(128 + number));
  exit_within(kSeconds, code);
  if (say_) say_(number, code);
  if (exit_code_) ::_exit(static_cast<int>(code));
  let_happen(number);
  ::_exit(static_cast<int>(code));
}

void SignalWatch::set_exit_code(std::optional<ExitCode> code) {
  const std::lock_guard lock(mutex_);
  exit_code_ = code;
}

/// Treats a signal as a request to end; returns whether the job goes on for now.
bool SignalWatch::take_as_request(int number) {
  const std::lock_guard lock(mutex_);
  if (!can_stop_) return false;
  if (requested_ != 0) return repeats_request(number, requested_, since_request_.seconds());
  requested_ = number;
  since_request_.restart();
  if (say_) say_(number, static_cast<ExitCode>(128 + number));
  return true;
}

SignalWatch::StopRequest::StopRequest(SignalWatch& watch) : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.can_stop_ = true;
  watch_.exit_code_.reset();
}

SignalWatch::StopRequest::~StopRequest() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.can_stop_ = false;
}

SignalWatch::SignalCallback::SignalCallback(SignalWatch& watch, std::function<void(int, ExitCode)> say)
    : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.say_ = std::move(say);
}

SignalWatch::SignalCallback::~SignalCallback() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.say_ = nullptr;
}

}  // namespace sluice
