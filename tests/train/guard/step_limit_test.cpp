#include "train/guard/step_limit.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(StepLimit, is_five_times_the_least_for_the_first_step) { EXPECT_EQ(StepLimit(120, 0).seconds(), 600); }

TEST(StepLimit, is_the_least_while_steps_are_quick) {
  StepLimit limit(120, 0);
  for (int step = 0; step < 5; ++step) limit.add(1);
  EXPECT_EQ(limit.seconds(), 120);
}

TEST(StepLimit, is_ten_median_steps_where_they_are_slow) {
  StepLimit limit(120, 0);
  for (const double seconds : {600.0, 30.0, 31.0, 29.0, 1.0}) limit.add(seconds);
  EXPECT_EQ(limit.seconds(), 300);
}

TEST(StepLimit, leaves_time_for_what_lies_on_a_disk) {
  StepLimit limit(120, 500);
  EXPECT_EQ(limit.seconds(), 2500);
  limit.add(40);
  EXPECT_EQ(limit.seconds(), 500);
}

}  // namespace
}  // namespace sluice
