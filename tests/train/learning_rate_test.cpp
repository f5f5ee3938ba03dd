#include "train/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

constexpr double kBase = 2e-3;

LearningRateSchedule schedule_of(ScheduleKind kind, std::int64_t warmup_steps, double final_factor,
                                 std::int64_t steps = 101) {
  return {{kind, warmup_steps, final_factor}, kBase, steps};
}

TEST(LearningRate, rises_linearly_over_the_warm_up_and_reaches_the_base_at_its_last_step) {
  for (const ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    const LearningRateSchedule schedule = schedule_of(kind, 4, 0.1);
    EXPECT_DOUBLE_EQ(schedule.at(0), kBase / 4);
    EXPECT_DOUBLE_EQ(schedule.at(1), kBase / 2);
    EXPECT_DOUBLE_EQ(schedule.at(3), kBase);
    EXPECT_DOUBLE_EQ(schedule.at(4), kBase);
  }
}

TEST(LearningRate, constant_stays) {
  for (const std::int64_t step : {0, 50, 100, 1000})
    EXPECT_EQ(schedule_of(ScheduleKind::kConstant, 0, 0.1).at(step), kBase);
}

TEST(LearningRate, linear_falls_on_a_line_to_the_final_factor_at_the_last_step) {
  const LearningRateSchedule schedule = schedule_of(ScheduleKind::kLinear, 0, 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(0), kBase);
  EXPECT_DOUBLE_EQ(schedule.at(50), kBase * 0.55);
  EXPECT_DOUBLE_EQ(schedule.at(100), kBase * 0.1);
}

TEST(LearningRate, cosine_falls_on_half_a_wave_after_the_warm_up) {
  const LearningRateSchedule schedule = schedule_of(ScheduleKind::kCosine, 20, 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(20), kBase);
  EXPECT_NEAR(schedule.at(40), kBase * (0.2 + 0.8 * (0.5 + std::sqrt(0.125))), 1e-15);
  EXPECT_NEAR(schedule.at(60), kBase * 0.6, 1e-15);
  EXPECT_NEAR(schedule.at(100), kBase * 0.2, 1e-15);
}

TEST(LearningRate, stays_at_its_end_beyond_the_last_step) {
  for (const ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kLinear})
    EXPECT_NEAR(schedule_of(kind, 0, 0.3).at(5000), kBase * 0.3, 1e-15);
}

TEST(LearningRate, ends_at_the_final_factor_though_the_warm_up_takes_all_steps_but_the_last) {
  for (const ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    const LearningRateSchedule schedule = schedule_of(kind, 9, 0.1, 10);
    EXPECT_DOUBLE_EQ(schedule.at(8), kBase);
    EXPECT_DOUBLE_EQ(schedule.at(9), kBase * 0.1);
  }
}

TEST(LearningRate, is_a_number_for_runs_of_one_step_or_of_warm_up_alone) {
  EXPECT_EQ(schedule_of(ScheduleKind::kCosine, 0, 0.1, 1).at(0), kBase);
  EXPECT_EQ(schedule_of(ScheduleKind::kLinear, 10, 0.1, 5).at(4), kBase / 2);
}

}  // namespace
}  // namespace sluice
