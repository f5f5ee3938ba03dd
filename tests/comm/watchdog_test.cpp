#include "comm/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>
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

}  // namespace
}  // namespace sluice
