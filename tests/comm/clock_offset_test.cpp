#include "comm/clock/clock_offset.hpp"

#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sluice {
namespace {

TEST(ClockOffset, is_nothing_within_its_accuracy_between_ranks_of_one_machine) {
  const ClockOffset offset = measure_clock_offset(test::test_world());
  if (test::test_world().rank() == 0) {
    EXPECT_EQ(offset.nanoseconds, 0);
    EXPECT_EQ(offset.round_trip_ns, 0);
  } else {
    EXPECT_GT(offset.round_trip_ns, 0);
    EXPECT_LE(std::abs(offset.nanoseconds), offset.round_trip_ns / 2 + 1);
  }
}

}  // namespace
}  // namespace sluice
