#include "train/guard/preference_watch.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using Finding = PreferenceWatch::Finding;

PreferenceMetrics step(bool has_margin, double chosen_log_prob = -5) {
  return {.chosen_log_prob = chosen_log_prob, .has_margin = has_margin};
}

TEST(PreferenceWatch, finds_once_that_two_updates_have_changed_no_margin) {
  PreferenceWatch watch;
  EXPECT_EQ(watch.add(step(false), true), Finding::kNone);
  EXPECT_EQ(watch.add(step(false), false), Finding::kNone) << "no update";
  EXPECT_EQ(watch.add(step(false), true), Finding::kNone);
  EXPECT_EQ(watch.add(step(false), true), Finding::kNoMargin);
  EXPECT_EQ(watch.add(step(false), true), Finding::kNone);
}

TEST(PreferenceWatch, finds_nothing_once_any_margin_has_moved) {
  PreferenceWatch watch;
  EXPECT_EQ(watch.add(step(false), true), Finding::kNone);
  EXPECT_EQ(watch.add(step(true), true), Finding::kNone);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(watch.add(step(false), true), Finding::kNone);
}

TEST(PreferenceWatch, finds_once_that_chosen_answers_become_less_probable) {
  PreferenceWatch watch;
  for (std::int64_t i = 1; i <= 2 * PreferenceWatch::kSteps; ++i) {
    // Falls, with a jump up every third step.
    const double log_prob = -0.1 * static_cast<double>(i) + (i % 3 == 0 ? 0.5 : 0);
    const Finding expected = i == PreferenceWatch::kSteps ? Finding::kFallingLogProb : Finding::kNone;
    EXPECT_EQ(watch.add(step(true, log_prob), true), expected) << i;
  }
}

TEST(PreferenceWatch, takes_no_offence_at_chosen_answers_that_stay_as_probable) {
  PreferenceWatch watch;
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(watch.add(step(true, i % 20 < 10 ? -5 : -5.5), true), Finding::kNone);
}

}  // namespace
}  // namespace sluice
