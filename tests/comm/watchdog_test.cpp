#include "comm/failure/watchdog.hpp"

#include "comm/position.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace sluice {
namespace {

TEST(WatchdogDeathTest, tells_of_a_call_that_takes_long_and_ends_one_that_takes_too_long) {
  const auto hang = [] {
    Watchdog watchdog(0.1);
    watchdog.set_rank(3);
    const Watchdog::Guard guard(watchdog, "MPI_Init", 0.5);
    std::this_thread::sleep_for(std::chrono::seconds(20));
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal)),
              "still in MPI_Init on rank 3 for 0 s(.|\n)*has not returned within 0.5 s");
}

TEST(WatchdogDeathTest, lets_calls_pass_that_end_in_time) {
  const auto calls_then_work = [] {
    Watchdog watchdog(0.1);
    for (int i = 0; i < 3; ++i) const Watchdog::Guard guard(watchdog, "MPI_Comm_split", 0.3);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));  // no call's limit counts any longer
    std::_Exit(0);
  };
  EXPECT_EXIT(calls_then_work(), testing::ExitedWithCode(0), "^$");
}

[[noreturn]] void spin() {
  for (std::atomic<int> turns = 0;;) turns.fetch_add(1);
}

TEST(WatchdogDeathTest, ends_a_rank_that_computes_without_end_and_says_where_it_is) {
  const auto stuck = [] {
    Watchdog watchdog;
    watchdog.set_rank(3);
    position::enter("step");
    position::begin("all_reduce", 12);
    watchdog.set_section("step", 0.3);
    spin();
  };
  EXPECT_EXIT(
      stuck(), testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal)),
      "rank 3 is in section step, after all_reduce #12(.|\n)*newest first: all_reduce #12(.|\n)*stack: \n"
      "(.|\n)*step: rank 3 has computed for 0.[0-9] s without an end, longer than its limit of 0.3 s");
}

TEST(WatchdogDeathTest, tells_the_job_before_it_ends_a_rank) {
  const auto stuck = [] {
    Watchdog watchdog;
    watchdog.on_stall([](const Outcome& outcome) {
      static_cast<void>(std::fprintf(stderr, "told: %s\n", outcome.text.c_str()));
    });
    position::enter("evaluate");
    watchdog.set_section("evaluate", 0.1);
    spin();
  };
  EXPECT_EXIT(stuck(), testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal)),
              "told: evaluate: rank");
}

TEST(WatchdogDeathTest, lets_ranks_compute_that_begin_operations_or_set_up_a_job) {
  const auto busy = [] {
    Watchdog watchdog;
    watchdog.set_section("step", 0.3);
    for (int i = 0; i < 8; ++i) {
      position::begin("stage", i);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    watchdog.set_section("setup", 0.1);
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    std::_Exit(0);
  };
  EXPECT_EXIT(busy(), testing::ExitedWithCode(0), "^$");
}

TEST(Watchdog, asks_until_every_rank_of_the_machine_has_told_where_it_is) {
  constexpr double kLocateSeconds = 2;  // after which it asks no longer
  NodeFlags flags;
  Watchdog watchdog;
  watchdog.share(&flags, 2);
  std::thread other([&] {
    while (flags.located == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ++flags.located;
  });
  const Stopwatch asked;
  Watchdog::locate_ranks();
  const double seconds = asked.seconds();
  EXPECT_TRUE(flags.located == 2 || seconds >= kLocateSeconds) << flags.located << " after " << seconds;
  other.join();
}

}  // namespace
}  // namespace sluice
