#include "shard/stage_plan.hpp"

#include "shard/models.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing_models::moe;

TEST(StagePlan, gathers_a_layers_dense_part_and_experts_together) {
  const UnitLayouts layouts = make_unit_layouts(moe());
  const StagePlan plan = make_stage_plan(layouts, TiedHead::kNo);
  ASSERT_EQ(plan.layers.size(), 2u);
  ASSERT_EQ(plan.layers[1].units.size(), 2u);
  EXPECT_EQ(layouts.units[static_cast<std::size_t>(plan.layers[1].units[0])].name(), "layers.1.dense");
  EXPECT_EQ(layouts.units[static_cast<std::size_t>(plan.layers[1].units[1])].name(), "layers.1.experts");
  EXPECT_EQ(plan.head.units.size(), 1u);
}

TEST(StagePlan, a_tied_head_needs_the_embedding_again) {
  const StagePlan plan = make_stage_plan(make_unit_layouts(moe({.tied = true})), TiedHead::kYes);
  ASSERT_EQ(plan.head.units.size(), 2u);
  EXPECT_EQ(plan.head.units[0], plan.embed.units[0]);
}

TEST(StagePlan, counts_the_dense_units_of_two_stages_that_follow_each_other) {
  const UnitLayouts layouts = make_unit_layouts(moe({.vocabulary = 500}));
  const StagePlan plan = make_stage_plan(layouts, TiedHead::kNo);
  const ShardPlan shards(layouts, {.world = 2});
  const auto elements = [&](std::size_t unit) { return layouts.units[unit].elements(); };
  EXPECT_GT(elements(5), elements(0)) << "the head has the final norm too";
  EXPECT_EQ(plan.gather_bytes(shards, 1, 1).dense, elements(3) + elements(5));
  EXPECT_EQ(plan.gather_bytes(shards, 1, 1).experts, elements(2));
}

TEST(StagePlan, stages_follow_each_other_from_the_embedding_to_the_head_and_back) {
  const StagePlan plan = make_stage_plan(make_unit_layouts(moe()), TiedHead::kNo);
  EXPECT_EQ(&plan.after(-1), &plan.layers[0]);
  EXPECT_EQ(&plan.after(0), &plan.layers[1]);
  EXPECT_EQ(&plan.after(1), &plan.head);
  EXPECT_EQ(plan.before(1), plan.layers.data());
  EXPECT_EQ(plan.before(0), nullptr);
}

TEST(StagePlan, gradients_of_experts_that_are_reduced_leave_no_room_for_a_second_stage) {
  const UnitLayouts layouts = make_unit_layouts(moe({.experts = 50}));
  const StagePlan plan = make_stage_plan(layouts, TiedHead::kNo);
  const ShardPlan shards(layouts, {.world = 2});
  EXPECT_EQ(plan.gradient_elements(shards, 0), layouts.units[1].elements() + layouts.units[2].elements());
}

TEST(StagePlan, what_a_rank_owns_alone_is_not_gathered) {
  const UnitLayouts layouts = make_unit_layouts(moe({.experts = 50}));
  const StagePlan plan = make_stage_plan(layouts, TiedHead::kNo);
  const ShardPlan routed(layouts, {.world = 2, .expert_parallel = 2});
  EXPECT_EQ(plan.gather_bytes(routed, 0, 1).experts, 0);
  EXPECT_EQ(plan.gradient_elements(routed, 0), plan.gather_bytes(routed, 0, 1).dense);
  EXPECT_EQ(plan.gradient_elements(ShardPlan(layouts, {.world = 1}), 0), 0);
  const ShardPlan groups(layouts, {.world = 4, .expert_parallel = 2});
  EXPECT_EQ(plan.gather_bytes(groups, 3, 1).experts, layouts.units[2].elements() / 2);
}

}  // namespace
}  // namespace sluice
