#include "train/guard/collapse_watch.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace sluice {
namespace {

// Tokens of the experts of a layer, of which each token chooses 2.
using Load = std::vector<std::int64_t>;
const Load kEven{5, 5, 5, 5, 5, 5, 5, 5};
const Load kCollapsed{16, 0, 4, 0, 16, 4, 0, 0};  // 32 of 40
const Load kAlmost{14, 2, 2, 2, 15, 2, 2, 1};     // 29 of 40
const Load kWorse{20, 0, 0, 0, 20, 0, 0, 0};

/// Tokens of several layers in one step.
Load step_of(std::initializer_list<Load> layers) {
  Load step;
  for (const Load& layer : layers) step.insert(step.end(), layer.begin(), layer.end());
  return step;
}

/// What the last of so many equal steps is answered with; nothing may come before.
std::optional<CollapsedLayer> after(CollapseWatch& watch, std::int64_t steps, const Load& step) {
  for (std::int64_t i = 1; i < steps; ++i) EXPECT_FALSE(watch.add(step)) << "in step " << i;
  return watch.add(step);
}

TEST(CollapseWatch, names_a_layer_whose_tokens_all_go_to_a_few_experts_for_long) {
  CollapseWatch watch(8, 2);
  const std::optional<CollapsedLayer> found =
      after(watch, CollapseWatch::kSteps, step_of({kEven, kCollapsed, kEven}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->layer, 1);
  EXPECT_DOUBLE_EQ(found->share, 0.8);
  EXPECT_EQ(found->unused, 4);
}

TEST(CollapseWatch, names_the_worst_of_several) {
  CollapseWatch watch(8, 2);
  EXPECT_EQ(after(watch, CollapseWatch::kSteps, step_of({kCollapsed, kWorse, kCollapsed}))->layer, 1);
}

TEST(CollapseWatch, speaks_once) {
  CollapseWatch watch(8, 2);
  EXPECT_TRUE(after(watch, CollapseWatch::kSteps, kCollapsed));
  EXPECT_FALSE(after(watch, 2 * CollapseWatch::kSteps, kWorse));
}

TEST(CollapseWatch, begins_anew_after_a_step_that_is_less_uneven) {
  CollapseWatch watch(8, 2);
  EXPECT_FALSE(after(watch, CollapseWatch::kSteps - 1, kCollapsed));
  EXPECT_FALSE(watch.add(kAlmost));
  EXPECT_TRUE(after(watch, CollapseWatch::kSteps, kCollapsed));
}

TEST(CollapseWatch, is_silent_for_models_that_choose_most_of_their_experts_and_for_dense_ones) {
  CollapseWatch most(8, 5), dense(0, 0);
  EXPECT_FALSE(after(most, 2 * CollapseWatch::kSteps, kWorse));
  EXPECT_FALSE(after(dense, 2 * CollapseWatch::kSteps, {}));
}

}  // namespace
}  // namespace sluice
