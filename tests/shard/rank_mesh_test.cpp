#include "shard/rank_mesh.hpp"

#include "shard/models.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice {
namespace {

/// Ranks of all that are in a communicator, in its order.
std::vector<std::int64_t> members(Communicator& comm, int rank) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(comm.size()));
  const std::vector<std::int64_t> bytes(ranks.size(), sizeof(std::int64_t));
  const std::int64_t own = rank;
  comm.all_gather(&own, ranks.data(), bytes).wait();
  return ranks;
}

std::vector<std::int64_t> every(int first, int step, int count) {
  std::vector<std::int64_t> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

TEST(RankSets, are_all_ranks_where_the_model_is_held_once) {
  Communicator& all = test::test_world();
  const RankSets sets(all, {.world = all.size()});
  EXPECT_EQ(&sets.own(), &all);
  EXPECT_EQ(sets.counterparts(), nullptr);
  EXPECT_TRUE(sets.is_first() && sets.is_last());
}

TEST(RankMesh, has_sets_of_consecutive_ranks_and_counterparts_of_equal_number_in_them) {
  Communicator& all = test::test_world();
  const UnitLayouts layouts = make_unit_layouts(testing_models::moe({}));
  for (int replicas = 2; replicas <= all.size(); ++replicas) {
    const int world = all.size() / replicas;
    if (all.size() % replicas != 0) continue;
    for (int group = 1; group <= world; ++group) {
      if (world % group != 0) continue;
      const ParallelDims dims{.world = world, .expert_parallel = group, .replicas = replicas};
      const RankMesh mesh(all, dims);
      const int rank = all.rank(), set = rank / world;
      EXPECT_EQ(mesh.sets().number(), set);
      EXPECT_EQ(mesh.sets().is_last(), set == replicas - 1);
      EXPECT_EQ(members(mesh.sets().own(), rank), every(set * world, 1, world));
      EXPECT_EQ(members(*mesh.sets().counterparts(), rank), every(rank % world, world, replicas));
      if (group > 1) {
        EXPECT_EQ(members(*mesh.group(), rank), every(rank / group * group, 1, group));
      }
      const ShardPlan plan(layouts, dims);
      for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
        if (plan.sharers(unit) == 1) continue;
        const int step = plan.has_experts(unit) ? group : 1;
        EXPECT_EQ(members(mesh.sharers(plan, unit), rank),
                  every(set * world + (plan.has_experts(unit) ? rank % group : 0), step, world / step));
      }
    }
  }
}

TEST(RankMesh, rounds_the_sum_of_each_set_and_that_of_all_where_bfloat16_is_sent) {
  const auto rounded = [](float value) { return bfloat16_value(bfloat16_bits(value)); };
  Communicator& all = test::test_world();
  for (int replicas = 2; replicas <= all.size(); ++replicas) {
    if (all.size() % replicas != 0) continue;
    const RankMesh mesh(
        all, {.world = all.size() / replicas, .replicas = replicas, .wire = {.gradients = DType::kBFloat16}});
    const auto term = [](int set, std::size_t i) { return 1.0F / static_cast<float>(3 + set + i); };
    std::vector<float> sums(3001);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = term(mesh.sets().number(), i);
    const std::int64_t before = mesh.traffic().sent_bytes, count = std::ssize(sums);
    mesh.sum_over_sets(sums);
    const std::int64_t own = equal_part(count, replicas, mesh.sets().number()).count();
    EXPECT_EQ(mesh.traffic().sent_bytes - before, 2 * (count - own + own * (replicas - 1)));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      float expected = 0;
      for (int set = 0; set < replicas; ++set) expected += rounded(term(set, i));
      ASSERT_EQ(sums[i], rounded(expected)) << "element " << i;
    }
  }
}

TEST(RankMesh, adds_up_the_sums_of_sets_to_the_same_bits_in_all) {
  Communicator& all = test::test_world();
  for (int replicas = 1; replicas <= all.size(); ++replicas) {
    if (all.size() % replicas != 0) continue;
    const RankMesh mesh(all, {.world = all.size() / replicas, .replicas = replicas});
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
      std::vector<float> sums(count);
      float expected = 0;
      for (int set = 0; set < replicas; ++set) expected += 0.1F * static_cast<float>(1 + set);
      for (float& sum : sums) sum = 0.1F * static_cast<float>(1 + mesh.sets().number());
      mesh.sum_over_sets(sums);
      for (const float sum : sums) ASSERT_EQ(sum, expected);
    }
  }
}

}  // namespace
}  // namespace sluice
