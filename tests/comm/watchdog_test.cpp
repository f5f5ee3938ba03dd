#include "comm/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace sluice {
namespace {

TEST(WatchdogDeathTest, SpeaksOfACallThatTakesLongAndEndsOneThatTakesTooLong) {
  const auto hang = [] {
    Watchdog watchdog(0.1);
    watchdog.set_rank(3);
    const Watchdog::Guard guard(watchdog, "MPI_Init", 0.5);
    std::this_thread::sleep_for(std::chrono::seconds(20));
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(static_cast<int>(ExitCode::kInternal)),
              "still in MPI_Init on rank 3 for 0 s(.|\n)*has not returned within 0.5 s");
}

TEST(Watchdog, LetsCallsPassThatEndInTime) {
  Watchdog watchdog;
  for (int i = 0; i < 3; ++i) const Watchdog::Guard guard(watchdog, "MPI_Comm_split", 20);
}

}  // namespace
}  // namespace sluice
