#include "job/signal_watch.hpp"

#include "comm/watchdog.hpp"

#include <unistd.h>

#include <utility>

namespace sluice {
namespace {

/// Ends the watch; no program sends it.
int stop_signal() { return SIGRTMIN; }

bool is_ignored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Without signals that are ignored, as under nohup: a blocked signal would be received all the same.
sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, stop_signal());
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2})
    if (!is_ignored(number)) sigaddset(&signals, number);
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

const char* signal_name(int number) {
  switch (number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    default:
      return "a signal";
  }
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
  constexpr unsigned kSeconds = 5;  // longer than mpirun waits between SIGTERM and SIGKILL
  int number = 0;
  do {
    while (sigwait(&signals_, &number) != 0) {
    }
    if (number == stop_signal()) return;
  } while (take_as_request(number));
  const std::lock_guard lock(mutex_);
  exit_within(kSeconds, static_cast<ExitCode>(128 + number));
  if (say_) say_(number);
  let_happen(number);
}

/// Whether the job goes on for now.
bool SignalWatch::take_as_request(int number) {
  const std::lock_guard lock(mutex_);
  const bool asks = number == SIGTERM || number == SIGINT || number == SIGUSR1;
  if (!asks || !can_stop_ || requested_ != 0) return false;
  requested_ = number;
  if (say_) say_(number);
  return true;
}

SignalWatch::StopRequest::StopRequest(SignalWatch& watch) : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.can_stop_ = true;
}

SignalWatch::StopRequest::~StopRequest() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.can_stop_ = false;
}

SignalWatch::SignalCallback::SignalCallback(SignalWatch& watch, std::function<void(int)> say)
    : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.say_ = std::move(say);
}

SignalWatch::SignalCallback::~SignalCallback() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.say_ = nullptr;
}

}  // namespace sluice
