#include "job/signal_watch.hpp"

#include "comm/watchdog.hpp"

#include <unistd.h>

#include <utility>

namespace sluice {
namespace {

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&signals, number);
  return signals;
}

/// Dies of it, as if nobody had watched.
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

SignalWatch::SignalWatch() {
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &mask_before_);
  thread_ = std::thread([this] { run(); });
}

SignalWatch::~SignalWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGUSR2);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void SignalWatch::run() {
  constexpr unsigned kSeconds = 5;  // longer than mpirun waits between SIGTERM and SIGKILL
  const sigset_t signals = watched_signals();
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  exit_within(kSeconds, static_cast<ExitCode>(128 + number));
  if (say_) say_(number);
  let_happen(number);
}

SignalWatch::LastWords::LastWords(SignalWatch& watch, std::function<void(int)> say) : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.say_ = std::move(say);
}

SignalWatch::LastWords::~LastWords() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.say_ = nullptr;
}

}  // namespace sluice
