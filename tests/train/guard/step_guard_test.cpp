#include "train/guard/step_guard.hpp"

#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

StepGuard guard_after(OnSpike on_spike, std::initializer_list<double> losses) {
  StepGuard guard({.on_spike = on_spike, .spike_factor = 3, .spike_window = 4, .max_skipped_steps = 2});
  for (const double loss : losses) guard.add_update(loss);
  return guard;
}

TEST(StepGuard, knows_no_spike_before_its_window_is_full) {
  EXPECT_TRUE(std::isinf(guard_after(OnSpike::kSkip, {1, 1, 1}).spike_limit()));
  EXPECT_EQ(guard_after(OnSpike::kSkip, {1, 1, 1, 1}).spike_limit(), 3);
}

TEST(StepGuard, takes_the_median_of_the_last_steps_so_one_of_them_changes_little) {
  EXPECT_EQ(guard_after(OnSpike::kSkip, {100, 2, 1, 2, 50}).spike_limit(), 6);
}

TEST(StepGuard, only_warns_unless_it_is_told_to_leave_updates_out) {
  EXPECT_TRUE(std::isinf(guard_after(OnSpike::kWarn, {1, 1, 1, 1}).largest_loss()));
  EXPECT_EQ(guard_after(OnSpike::kRewind, {1, 1, 1, 1}).largest_loss(), 3);
}

TEST(StepGuard, a_step_without_a_target_neither_ends_nor_lengthens_a_row_of_updates_left_out) {
  StepGuard guard = guard_after(OnSpike::kSkip, {1});
  for (int i = 0; i < 5; ++i) guard.add_without_target();
  guard.add_left_out(7, "loss nan");
  guard.add_without_target();
  guard.add_left_out(9, "loss nan");
  EXPECT_EQ(guard.left_out(), 8);
  EXPECT_THROW(guard.add_left_out(10, "loss nan"), Error);
}

TEST(StepGuard, gives_up_when_too_many_updates_in_a_row_are_left_out) {
  StepGuard guard = guard_after(OnSpike::kSkip, {1});
  guard.add_left_out(2, "loss nan");
  guard.add_left_out(3, "loss nan");
  guard.add_update(1);
  guard.add_left_out(5, "loss nan");
  guard.add_left_out(6, "loss nan");
  EXPECT_EQ(guard.left_out(), 4);
  test::expect_error(ExitCode::kNumerics, {"step 7: loss inf", "guard.max_skipped_steps = 2"},
                     [&] { guard.add_left_out(7, "loss inf"); });
}

}  // namespace
}  // namespace sluice
