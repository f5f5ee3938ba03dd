#include "base/clock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace sluice {
namespace {

TEST(Stopwatch, measures_and_restarts) {
  Stopwatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double first = watch.seconds();
  EXPECT_GE(first, 0.02);
  watch.restart();
  EXPECT_LT(watch.seconds(), first);
}

TEST(UtcNow, is_an_iso_8601_time) { EXPECT_THAT(utc_now(), testing::MatchesRegex("20..-..-..T..:..:..Z")); }

}  // namespace
}  // namespace sluice
