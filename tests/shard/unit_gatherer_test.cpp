#include "shard/unit_gatherer.hpp"

#include "base/error.hpp"
#include "shard/models.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

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

/// What a rank holds of the units of a stage is there.
void expect_whole(const std::vector<std::byte*>& units, const Stage& stage, const ShardPlan& plan, int rank) {
  ASSERT_EQ(units.size(), stage.units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    const int unit = stage.units[i];
    const Range held = plan.gathered_range(unit, rank);
    const auto* values = reinterpret_cast<const float*>(units[i]) - held.begin;
    for (std::int64_t e = held.begin; e < held.end; ++e)
      ASSERT_EQ(values[e], static_cast<float>(unit * 1000 + e));
  }
}

/// The stages of a step, each gathered, with and without the next one on its way meanwhile.
void expect_gathers(Communicator& comm, int expert_parallel) {
  const UnitLayouts layouts = make_unit_layouts(testing_models::moe({.tied = true}));
  const StagePlan stages = make_stage_plan(layouts, TiedHead::kYes);
  const ShardPlan plan(layouts, {.world = comm.size(), .expert_parallel = expert_parallel});
  ShardArena arena(plan, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "weights");
  fill(arena);
  const RankMesh mesh(comm, plan.dims());
  UnitGatherer gatherer(mesh, arena, stages);
  std::vector<Stage> order{stages.embed};
  order.insert(order.end(), stages.layers.begin(), stages.layers.end());
  order.push_back(stages.head);
  order.insert(order.end(), stages.layers.rbegin(), stages.layers.rend());
  for (const bool ahead : {false, true}) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::vector<std::byte*> units = gatherer.gather(order[i]);
      if (ahead && i + 1 < order.size()) gatherer.begin(order[i + 1]);
      expect_whole(units, order[i], plan, comm.rank());
      gatherer.release();
    }
  }
}

TEST(UnitGatherer, makes_every_unit_of_every_stage_whole_on_every_rank) {
  expect_gathers(test::test_world(), 1);
}

TEST(UnitGatherer, leaves_experts_where_they_are_owned) {
  expect_gathers(test::test_world(), test::test_world().size());
}

TEST(UnitGatherer, gathers_experts_among_the_groups) {
  if (test::test_world().size() == 4) expect_gathers(test::test_world(), 2);
}

TEST(UnitGatherer, gathers_units_that_are_kept_once) {
  Communicator& comm = test::test_world();
  for (const testing_models::Shape& shape : {testing_models::Shape{.tied = true}, {}}) {
    ParameterManifest manifest = testing_models::moe(shape);
    for (int tensor = 0; tensor < static_cast<int>(manifest.tensors().size()); ++tensor)
      if (manifest[tensor].name.find("layers.1") == std::string::npos) manifest.freeze(tensor);
    const UnitLayouts layouts = make_unit_layouts(manifest);
    const ShardPlan plan(layouts, {.world = comm.size()}, ShardAlignment::kLines, FrozenUnits::kKept);
    const StagePlan stages = make_stage_plan(layouts, TiedHead{shape.tied});
    ShardArena arena(plan, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "weights");
    fill(arena);
    const RankMesh mesh(comm, plan.dims());
    UnitGatherer gatherer(mesh, arena, stages);
    const std::int64_t before = mesh.traffic().sent_bytes;
    std::vector<std::byte*> first;
    for (const Stage* stage : {&stages.embed, &stages.layers[0], &stages.embed, &stages.layers[0]}) {
      const std::vector<std::byte*> units = gatherer.gather(*stage);
      gatherer.begin(stages.layers[1]);
      expect_whole(units, *stage, plan, comm.rank());
      gatherer.release();
      expect_whole(gatherer.gather(stages.layers[1]), stages.layers[1], plan, comm.rank());
      gatherer.release();
    }
    std::int64_t dense = 0;
    for (const Stage* stage : {&stages.embed, &stages.layers[0]})
      for (const int unit : stage->units)
        if (!plan.has_experts(unit)) dense += plan.owned(unit, comm.rank()).count();
    std::int64_t others = 0;  // in each of four times, and experts of the first layer in each of two
    for (const int unit : stages.layers[1].units) others += 4 * plan.owned(unit, comm.rank()).count();
    for (const int unit : stages.layers[0].units)
      if (plan.has_experts(unit)) others += 2 * plan.owned(unit, comm.rank()).count();
    EXPECT_EQ(mesh.traffic().sent_bytes - before, (dense + others) * 4 * (comm.size() - 1));
  }
}

/// Of a table of 40 rows of `hidden` elements. Rank r needs rows of all owners, the last rank none; one of
/// them is not in the table.
void expect_rows(Communicator& comm, std::int64_t hidden, std::int64_t state_block) {
  const UnitLayouts layouts =
      make_unit_layouts(testing_models::moe({.hidden = hidden, .vocabulary = 40}), state_block);
  const StagePlan stages = make_stage_plan(layouts, TiedHead::kNo);
  const ShardPlan plan(layouts, {.world = comm.size()});
  ShardArena arena(plan, comm.rank(), DType::kFloat32, MemoryKind::kPrivate, "weights");
  fill(arena);
  const RankMesh mesh(comm, plan.dims());
  UnitGatherer gatherer(mesh, arena, stages);

  std::vector<std::int64_t> needed;
  if (comm.rank() + 1 < comm.size()) needed = {0, 7 + comm.rank(), 23, 39, 40};
  const RowExchange rows(mesh, plan, stages.embed.units.front(), needed);
  ASSERT_EQ(rows.width(), hidden);
  ASSERT_TRUE(rows.fits());
  const auto* const table = reinterpret_cast<const float*>(gatherer.gather_rows(stages.embed, rows).front());
  gatherer.begin(stages.layers.front());
  const int unit = stages.embed.units.front();
  for (const std::int64_t row : needed)
    for (std::int64_t i = row * hidden; row < 40 && i < (row + 1) * hidden; ++i)
      EXPECT_EQ(table[i], static_cast<float>(unit * 1000 + i));
  gatherer.release();
  expect_whole(gatherer.gather(stages.layers.front()), stages.layers.front(), plan, comm.rank());
  gatherer.release();
}

TEST(UnitGatherer, brings_of_a_table_the_rows_that_are_needed) {
  Communicator& comm = test::test_world();
  if (comm.size() > 1) expect_rows(comm, 5, 1);  // one rank has all of the table
}

TEST(UnitGatherer, brings_rows_of_tables_that_are_cut_between_several_rows) {
  Communicator& comm = test::test_world();
  if (comm.size() == 1) return;
  expect_rows(comm, 48, 128);  // cut at every eighth row
  expect_rows(comm, 5, 128);   // the table has fewer rows than that
}

TEST(RowExchange, fits_where_the_rows_of_all_ranks_take_no_more_room_than_the_table) {
  Communicator& comm = test::test_world();
  if (comm.size() == 1) return;
  const UnitLayouts layouts = make_unit_layouts(testing_models::moe({.vocabulary = 40}));
  const ShardPlan plan(layouts, {.world = comm.size()});
  const RankMesh mesh(comm, plan.dims());
  // Rank 0 alone needs any: as many as it has arrive at their owners together.
  const auto fits = [&](std::int64_t count) {
    std::vector<std::int64_t> needed(comm.rank() == 0 ? static_cast<std::size_t>(count) : 0);
    std::iota(needed.begin(), needed.end(), 0);
    return RowExchange(mesh, plan, 0, needed).fits();
  };
  EXPECT_TRUE(fits(20));
  EXPECT_FALSE(fits(21));
}

TEST(UnitGatherer, refuses_another_stage_than_the_one_begun) {
  const UnitLayouts layouts = make_unit_layouts(testing_models::moe());
  const StagePlan stages = make_stage_plan(layouts, TiedHead::kNo);
  const ShardPlan plan(layouts, {.world = test::test_world().size()});
  const ShardArena arena(plan, test::test_world().rank(), DType::kFloat32, MemoryKind::kPrivate, "weights");
  const RankMesh mesh(test::test_world(), plan.dims());
  UnitGatherer gatherer(mesh, arena, stages);
  gatherer.begin(stages.embed);
  EXPECT_THROW(static_cast<void>(gatherer.gather(stages.head)), Error);
  EXPECT_THROW(gatherer.begin(stages.head), Error);
  static_cast<void>(gatherer.gather(stages.embed));
  gatherer.release();
}

}  // namespace
}  // namespace sluice
