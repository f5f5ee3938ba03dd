#include "shard/unit_gatherer.hpp"

#include "shard/models.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

/// Element i of unit u holds u * 1000 + i on its owner.
void fill(ShardArena& arena) {
  for (int unit = 0; unit < static_cast<int>(arena.plan().layouts().units.size()); ++unit) {
    auto* shard = reinterpret_cast<float*>(arena.unit_data(unit));
    const Range owned = arena.plan().owned(unit, arena.rank());
    for (std::int64_t i = 0; i < owned.count(); ++i)
      shard[i] = static_cast<float>(unit * 1000 + owned.begin + i);
  }
}

TEST(UnitGatherer, makes_every_unit_of_every_stage_whole_on_every_rank) {
  Communicator& comm = test::test_world();
  const UnitLayouts layouts = make_unit_layouts(testing_models::moe({.tied = true}));
  const StagePlan stages = make_stage_plan(layouts, true);
  const ShardPlan plan(layouts, {.world = comm.size()});
  ShardArena arena(plan, comm.rank(), DType::kFloat32, "weights");
  fill(arena);
  UnitGatherer gatherer(comm, arena, stages);
  std::vector<Stage> order{stages.embed};
  order.insert(order.end(), stages.layers.begin(), stages.layers.end());
  order.push_back(stages.head);
  for (const Stage& stage : order) {
    const std::vector<std::byte*> units = gatherer.gather(stage);
    ASSERT_EQ(units.size(), stage.units.size());
    for (std::size_t i = 0; i < units.size(); ++i) {
      const auto* whole = reinterpret_cast<const float*>(units[i]);
      const int unit = stage.units[i];
      for (std::int64_t e = 0; e < layouts.units[static_cast<std::size_t>(unit)].elements(); ++e)
        ASSERT_EQ(whole[e], static_cast<float>(unit * 1000 + e));
    }
    gatherer.release();
  }
}

}  // namespace
}  // namespace sluice
