#include "process/signal_watch.hpp"

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
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const auto die = [&] {
      ::signal(number, SIG_DFL);  // this test may run under nohup
      SignalWatch watch;
      const SignalWatch::SignalCallback words(
          watch, [](int n, ExitCode) { std::fprintf(stderr, "got %s", signal_name(n).c_str()); });
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
      const SignalWatch::SignalCallback words(watch, [](int, ExitCode) { std::fprintf(stderr, "spoken"); });
    }
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::seconds(20));
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGTERM), "^$");
}

TEST(SignalWatchDeathTest, what_is_ignored_stays_ignored) {
  const auto live = [] {
    ::signal(SIGHUP, SIG_IGN);  // nohup ignores it
    SignalWatch watch;
    const SignalWatch::SignalCallback words(watch, [](int, ExitCode) { std::fprintf(stderr, "spoken"); });
    ::kill(::getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::_Exit(3);
  };
  EXPECT_EXIT(live(), testing::ExitedWithCode(3), "^$");
}

TEST(SignalWatchDeathTest, an_exit_code_that_is_set_takes_the_place_of_the_signal) {
  const auto die = [] {
    SignalWatch watch;
    watch.set_exit_code(ExitCode::kResumable);
    const SignalWatch::SignalCallback words(
        watch, [](int, ExitCode code) { std::fprintf(stderr, "ends with %d", static_cast<int>(code)); });
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::seconds(20));
  };
  EXPECT_EXIT(die(), testing::ExitedWithCode(75), "ends with 75");
}

TEST(SignalWatchDeathTest, a_request_is_noted_once_and_the_next_signal_ends_the_process) {
  const auto die = [] {
    SignalWatch watch;
    watch.set_exit_code(ExitCode::kResumable);
    SignalWatch::StopRequest request(watch);
    request.set_patience(20);
    ::kill(::getpid(), SIGTERM);
    while (request.number() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::kill(::getpid(), SIGTERM);  // srun sends it right after slurmd
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::fprintf(stderr, "noted %s", signal_name(request.number()).c_str());
    ::kill(::getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::seconds(20));
  };
  ::signal(SIGINT, SIG_DFL);
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGINT), "noted SIGTERM");
}

TEST(SignalWatchDeathTest, every_signal_but_those_that_are_ignored_is_a_request) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU}) {
    const auto live = [&] {
      ::signal(number, SIG_DFL);
      SignalWatch watch;
      SignalWatch::StopRequest request(watch);
      request.set_patience(20);
      ::kill(::getpid(), number);
      while (request.number() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::fprintf(stderr, "noted %s", signal_name(request.number()).c_str());
      std::_Exit(3);
    };
    EXPECT_EXIT(live(), testing::ExitedWithCode(3), std::string("noted ") + signal_name(number));
  }
}

TEST(SignalWatch, a_request_may_come_twice) {
  EXPECT_TRUE(repeats_request(SIGTERM, SIGTERM, 0.1));
  EXPECT_TRUE(repeats_request(SIGHUP, SIGHUP, 0.1));
  EXPECT_TRUE(repeats_request(SIGHUP, SIGTERM, 0.1));
  EXPECT_FALSE(repeats_request(SIGTERM, SIGTERM, 4));
  EXPECT_TRUE(repeats_request(SIGXCPU, SIGXCPU, 100));
  EXPECT_FALSE(repeats_request(SIGINT, SIGINT, 0.1));
  EXPECT_FALSE(repeats_request(SIGTERM, SIGINT, 0.1));
}

TEST(SignalWatchDeathTest, a_term_that_no_step_answers_in_its_time_ends_the_process) {
  for (const bool answers : {false, true}) {
    const auto die = [&] {
      SignalWatch watch;
      SignalWatch::StopRequest request(watch);
      request.set_patience(0.2);
      ::kill(::getpid(), SIGTERM);
      while (request.number() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (answers) request.answer();
      std::this_thread::sleep_for(std::chrono::seconds(answers ? 1 : 20));
      std::_Exit(3);
    };
    if (answers)
      EXPECT_EXIT(die(), testing::ExitedWithCode(3), "");
    else
      EXPECT_EXIT(die(), testing::ExitedWithCode(70), "");
  }
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
