#include "job/signal_watch.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace sluice {
namespace {

TEST(SignalWatchDeathTest, a_signal_runs_its_callback_and_then_ends_the_process) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    const auto die = [&] {
      SignalWatch watch;
      const SignalWatch::SignalCallback words(watch,
                                              [](int n) { std::fprintf(stderr, "got %s", signal_name(n)); });
      ::kill(::getpid(), number);
      std::this_thread::sleep_for(std::chrono::seconds(20));
    };
    EXPECT_EXIT(die(), testing::KilledBySignal(number), std::string("got ") + signal_name(number));
  }
}

TEST(SignalWatchDeathTest, a_signal_without_a_callback_ends_the_process) {
  const auto die = [] {
    SignalWatch watch;
    {
      const SignalWatch::SignalCallback words(watch, [](int) { std::fprintf(stderr, "spoken"); });
    }
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::seconds(20));
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGTERM), "^$");
}

TEST(SignalWatchDeathTest, what_is_ignored_stays_ignored) {
  const auto live = [] {
    ::signal(SIGHUP, SIG_IGN);  // as nohup does
    SignalWatch watch;
    const SignalWatch::SignalCallback words(watch, [](int) { std::fprintf(stderr, "spoken"); });
    ::kill(::getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::_Exit(3);
  };
  EXPECT_EXIT(live(), testing::ExitedWithCode(3), "^$");
}

TEST(SignalWatch, gives_signals_back) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  { const SignalWatch watch; }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

}  // namespace
}  // namespace sluice
