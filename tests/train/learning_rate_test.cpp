#include "train/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

constexpr double kBase = 2e-3;

double rate(const ScheduleSettings& schedule, std::int64_t step) {
  return learning_rate(schedule, kBase, step, 101);
}

TEST(LearningRate, rises_linearly_over_the_warm_up_and_reaches_the_base_at_its_last_step) {
  for (const ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    const ScheduleSettings schedule{kind, 4, 0.1};
    EXPECT_DOUBLE_EQ(rate(schedule, 0), kBase / 4);
    EXPECT_DOUBLE_EQ(rate(schedule, 1), kBase / 2);
    EXPECT_DOUBLE_EQ(rate(schedule, 3), kBase);
    EXPECT_DOUBLE_EQ(rate(schedule, 4), kBase);
  }
}

TEST(LearningRate, constant_stays) {
  for (const std::int64_t step : {0, 50, 100, 1000})
    EXPECT_EQ(rate({ScheduleKind::kConstant, 0, 0.1}, step), kBase);
}

TEST(LearningRate, linear_falls_on_a_line_to_the_final_factor_at_the_last_step) {
  const ScheduleSettings schedule{ScheduleKind::kLinear, 0, 0.1};
  EXPECT_DOUBLE_EQ(rate(schedule, 0), kBase);
  EXPECT_DOUBLE_EQ(rate(schedule, 50), kBase * 0.55);
  EXPECT_DOUBLE_EQ(rate(schedule, 100), kBase * 0.1);
}

TEST(LearningRate, cosine_falls_on_half_a_wave_after_the_warm_up) {
  const ScheduleSettings schedule{ScheduleKind::kCosine, 20, 0.2};
  EXPECT_DOUBLE_EQ(rate(schedule, 20), kBase);
  EXPECT_NEAR(rate(schedule, 40), kBase * (0.2 + 0.8 * (0.5 + std::sqrt(0.125))), 1e-15);
  EXPECT_NEAR(rate(schedule, 60), kBase * 0.6, 1e-15);
  EXPECT_NEAR(rate(schedule, 100), kBase * 0.2, 1e-15);
}

TEST(LearningRate, stays_at_its_end_beyond_the_last_step) {
  for (const ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kLinear})
    EXPECT_NEAR(rate({kind, 0, 0.3}, 5000), kBase * 0.3, 1e-15);
}

TEST(LearningRate, is_a_number_for_runs_of_one_step_or_of_warm_up_alone) {
  EXPECT_EQ(learning_rate({ScheduleKind::kCosine, 0, 0.1}, kBase, 0, 1), kBase);
  EXPECT_EQ(learning_rate({ScheduleKind::kLinear, 10, 0.1}, kBase, 4, 5), kBase / 2);
}

}  // namespace
}  // namespace sluice
