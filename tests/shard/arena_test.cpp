#include "shard/arena.hpp"

#include "shard/models.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(ShardArena, has_the_size_of_the_plan_and_begins_as_zeros) {
  const UnitLayouts layouts = make_unit_layouts(testing_models::moe());
  const ShardPlan plan(layouts, {.world = 3});
  for (int rank = 0; rank < 3; ++rank) {
    const ShardArena arena(plan, rank, DType::kFloat32, MemoryKind::kPrivate, "weights");
    ASSERT_EQ(arena.bytes(), plan.arena_elements(rank) * 4);
    for (std::int64_t i = 0; i < arena.bytes(); ++i) ASSERT_EQ(arena.data()[i], std::byte{0});
  }
}

TEST(ShardArena, units_lie_where_the_plan_says) {
  const UnitLayouts layouts = make_unit_layouts(testing_models::moe());
  const ShardPlan plan(layouts, {.world = 2});
  const ShardArena arena(plan, 1, DType::kBFloat16, MemoryKind::kPrivate, "weights");
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
    EXPECT_EQ(arena.unit_data(unit) - arena.data(), plan.arena_offset(unit, 1) * 2);
    EXPECT_EQ(arena.unit_elements(unit), plan.owned(unit, 1).count());
  }
}

}  // namespace
}  // namespace sluice
