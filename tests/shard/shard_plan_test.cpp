#include "shard/shard_plan.hpp"

#include "shard/models.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace sluice {
namespace {

using testing_models::moe;
using testing_models::Shape;

/// Every element of every unit has one owner, and every rank's shards lie in its arena without overlap.
void expect_exact_cover(const ParameterManifest& manifest, int world, int expert_parallel = 1) {
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {.world = world, .expert_parallel = expert_parallel});
  std::vector<std::vector<int>> arenas;
  for (int rank = 0; rank < world; ++rank)
    arenas.emplace_back(static_cast<std::size_t>(plan.arena_elements(rank)), 0);
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < world; ++rank) {
      const Range owned = plan.owned(unit, rank);
      const Range held = plan.gathered_range(unit, rank);
      ASSERT_TRUE(held.begin <= owned.begin && owned.end <= held.end);
      sum += owned.count();
      EXPECT_EQ(plan.arena_offset(unit, rank) % plan.alignment(), 0);
      for (std::int64_t i = 0; i < owned.count(); ++i) {
        EXPECT_EQ(plan.owner(unit, owned.begin + i), rank);
        ++arenas[static_cast<std::size_t>(rank)][static_cast<std::size_t>(plan.arena_offset(unit, rank) + i)];
      }
    }
    ASSERT_EQ(sum, layouts.units[static_cast<std::size_t>(unit)].elements());
  }
  for (const std::vector<int>& arena : arenas)
    EXPECT_TRUE(std::ranges::all_of(arena, [](int claims) { return claims <= 1; }));
}

TEST(ShardPlan, owns_every_element_once_for_any_rank_count) {
  for (int world = 1; world <= 17; ++world) expect_exact_cover(moe(), world);
}

TEST(ShardPlan, owns_every_element_once_for_any_groups) {
  for (int world = 1; world <= 12; ++world)
    for (int group = 1; group <= world; ++group)
      if (world % group == 0) expect_exact_cover(moe({.experts = 7}), world, group);
}

TEST(ShardPlan, cuts_all_that_ranks_compute_with_by_rows_between_the_same_rows) {
  ParameterManifest manifest = moe({.hidden = 48, .vocabulary = 101});
  add_adapters(manifest, {.tensors = {{"lm_head.weight", 2, 1.0}}});
  for (const std::int64_t state_block : {1, 128}) {
    const UnitLayouts layouts = make_unit_layouts(manifest, state_block, {}, Vocabulary::kByRows);
    for (const int world : {2, 3, 7}) {
      const ShardPlan plan(layouts, {.world = world});
      const int embedding = layouts.unit_of(*manifest.find("model.embed_tokens.weight"));
      std::int64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Range rows = plan.owned_rows(embedding, rank);
        EXPECT_EQ(rows.begin, next);
        next = rows.end;
        for (const char* const name : {"lm_head.weight", "lm_head.lora_B.weight"}) {
          const int unit = layouts.unit_of(*manifest.find(name));
          EXPECT_TRUE(plan.is_by_rows(unit));
          EXPECT_FALSE(plan.is_gathered(unit));
          EXPECT_EQ(plan.owned_rows(unit, rank).begin, rows.begin) << name;
          EXPECT_EQ(plan.owned_rows(unit, rank).end, rows.end) << name;
        }
      }
      EXPECT_EQ(next, 101);
      EXPECT_TRUE(plan.is_gathered(layouts.unit_of(*manifest.find("model.norm.weight"))));
    }
  }
}

TEST(ShardPlan, experts_stay_whole_and_their_numbers_differ_by_one_at_most) {
  const UnitLayouts layouts = make_unit_layouts(moe({.layers = 1, .experts = 256}));
  const ShardPlan plan(layouts, {.world = 3, .expert_parallel = 3});
  const int unit = 2;
  ASSERT_EQ(layouts.units[unit].kind(), UnitKind::kExperts);
  const std::int64_t expert = layouts.units[unit].expert_begin(1);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(plan.owned(unit, rank).count(), (rank == 0 ? 86 : 85) * expert);
    EXPECT_EQ(plan.sharers(unit), 1);
    EXPECT_EQ(plan.sharers(0), 3);
  }
}

TEST(ShardPlan, replicas_share_the_experts_of_their_place) {
  const UnitLayouts layouts = make_unit_layouts(moe({.layers = 1, .experts = 5}));
  const ShardPlan plan(layouts, {.world = 4, .expert_parallel = 2});
  const int unit = 2;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(plan.gathered_range(unit, rank).begin, plan.gathered_range(unit, rank + 2).begin);
    EXPECT_EQ(plan.gathered_range(unit, rank).end, plan.gathered_range(unit, rank + 2).end);
    const std::vector<std::int64_t> counts = plan.counts(unit, rank);
    ASSERT_EQ(counts.size(), 2u);
    EXPECT_EQ(counts[0], plan.owned(unit, rank).count());
    EXPECT_EQ(counts[1], plan.owned(unit, rank + 2).count());
    EXPECT_EQ(counts[0] + counts[1], plan.gathered_range(unit, rank).count());
  }
  EXPECT_EQ(plan.gathered_range(unit, 0).count(), 3 * layouts.units[unit].expert_begin(1));
}

TEST(ShardPlan, groups_must_divide_the_world) {
  const UnitLayouts layouts = make_unit_layouts(moe());
  test::expect_error(ExitCode::kBadConfig, {"parallel.expert_parallel: found 2", "a divisor of 3"},
                     [&] { static_cast<void>(ShardPlan(layouts, {.world = 3, .expert_parallel = 2})); });
}

TEST(ShardPlan, owns_every_element_once_for_random_shapes) {
  std::mt19937 random(20260101);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 40; ++i) {
    const Shape shape{draw(1, 3), draw(1, 40), draw(1, 9), draw(1, 20), draw(1, 70), draw(0, 1) == 1};
    SCOPED_TRACE(testing::Message() << "hidden " << shape.hidden << ", experts " << shape.experts);
    expect_exact_cover(moe(shape), draw(1, 9));
  }
}

TEST(ShardPlan, shards_of_a_unit_differ_by_at_most_a_row_and_alignment) {
  const UnitLayouts layouts =
      make_unit_layouts(moe({.hidden = 96, .experts = 7, .width = 32, .vocabulary = 1000}));
  const ShardPlan plan(layouts, {.world = 3});
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
    const std::vector<std::int64_t> counts = plan.counts(unit, 0);
    const auto [least, most] = std::ranges::minmax(counts);
    EXPECT_LE(most - least, 2 * 96 + 32) << layouts.units[static_cast<std::size_t>(unit)].name();
  }
}

TEST(ShardPlan, owned_runs_of_a_tensor_add_up_over_ranks) {
  const ParameterManifest manifest = moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {.world = 4});
  for (const int tensor : manifest.stored_tensors()) {
    std::vector<int> seen(static_cast<std::size_t>(manifest[tensor].element_count()), 0);
    for (int rank = 0; rank < 4; ++rank)
      plan.owned_runs(tensor, rank, [&](const ShardPlan::OwnedRun& run) {
        EXPECT_LE(run.arena_begin + run.count, plan.arena_elements(rank));
        for (std::int64_t i = 0; i < run.count; ++i) ++seen[static_cast<std::size_t>(run.tensor_begin + i)];
      });
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << manifest[tensor].name;
  }
}

TEST(ShardPlan, owned_runs_of_all_ranks_are_those_of_each_in_order) {
  const ParameterManifest manifest = moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {.world = 4, .expert_parallel = 2});
  for (const int tensor : manifest.stored_tensors()) {
    const std::int64_t count = manifest[tensor].element_count();
    const Range part{count / 5, count - count / 7};
    std::map<std::int64_t, std::pair<int, std::int64_t>> together, apart;
    std::int64_t next = part.begin;
    plan.owned_runs(tensor, part, [&](int rank, const ShardPlan::OwnedRun& run) {
      EXPECT_EQ(run.tensor_begin, next);
      next += run.count;
      for (std::int64_t i = 0; i < run.count; ++i)
        together[run.tensor_begin + i] = {rank, run.arena_begin + i};
    });
    EXPECT_EQ(next, part.end);
    for (int rank = 0; rank < 4; ++rank)
      plan.owned_runs(tensor, part, rank, [&](const ShardPlan::OwnedRun& run) {
        for (std::int64_t i = 0; i < run.count; ++i)
          apart[run.tensor_begin + i] = {rank, run.arena_begin + i};
      });
    EXPECT_EQ(together, apart) << manifest[tensor].name;
  }
}

TEST(ShardPlan, owned_runs_of_a_part_lie_where_those_of_the_whole_do) {
  const ParameterManifest manifest = moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {.world = 3});
  for (const int tensor : manifest.stored_tensors()) {
    const std::int64_t count = manifest[tensor].element_count();
    for (int rank = 0; rank < 3; ++rank) {
      std::map<std::int64_t, std::int64_t> whole, parts;
      const auto into = [](std::map<std::int64_t, std::int64_t>& places) {
        return [&places](const ShardPlan::OwnedRun& run) {
          for (std::int64_t i = 0; i < run.count; ++i) places[run.tensor_begin + i] = run.arena_begin + i;
        };
      };
      plan.owned_runs(tensor, rank, into(whole));
      for (const Range part : {Range{0, count / 3}, Range{count / 3, count / 2}, Range{count / 2, count}})
        plan.owned_runs(tensor, part, rank, into(parts));
      EXPECT_EQ(parts, whole) << manifest[tensor].name;
    }
  }
}

TEST(ShardPlan, does_not_overflow_for_units_of_any_real_size) {
  const ParameterManifest manifest =
      moe({.layers = 1, .hidden = 1 << 20, .experts = 4096, .width = 1 << 10, .vocabulary = 1 << 20});
  const UnitLayouts layouts = make_unit_layouts(manifest);
  const ShardPlan plan(layouts, {.world = 100'000});
  std::int64_t total = 0;
  for (int rank = 0; rank < plan.world(); ++rank)
    for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit)
      total += plan.owned(unit, rank).count();
  EXPECT_EQ(total, layouts.elements());
}

}  // namespace
}  // namespace sluice
