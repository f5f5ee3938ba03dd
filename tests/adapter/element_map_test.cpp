#include "adapter/element_map.hpp"

#include "manifest/manifest.hpp"
#include "shard/flat_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace sluice {
namespace {

TensorInfo tensor(const char* name, std::vector<std::int64_t> shape, Role role) {
  TensorInfo info;
  info.name = name;
  info.shape = std::move(shape);
  info.role = role;
  info.layer = 0;
  return info;
}

ParameterManifest experts_and_matrix() {
  ParameterManifest manifest;
  manifest.add(tensor("model.layers.0.mlp.experts.down_proj.lora_B", {5, 4, 3}, Role::kExpert));
  manifest.add(tensor("model.layers.0.self_attn.q_proj.lora_B.weight", {7, 3}, Role::kAttention));
  return manifest;
}

struct Shards {
  explicit Shards(int world) : plan(layouts, {world, world}) {}
  ParameterManifest manifest = experts_and_matrix();
  UnitLayouts layouts = make_unit_layouts(manifest);
  ShardPlan plan;
};

/// The element of the tensor that each element of the file is, put together from the runs of all ranks for chunks of
/// `step`; each must be there once.
std::vector<std::int64_t> elements_of(const Shards& shards, int tensor, const ElementMap& map,
                                      std::int64_t step) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(map.count()), -1);
  for (int rank = 0; rank < shards.plan.world(); ++rank) {
    std::map<std::int64_t, std::int64_t> tensor_of;  // by place in the arena
    shards.plan.owned_runs(tensor, rank, [&](const ShardPlan::OwnedRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) tensor_of[run.arena_begin + i] = run.tensor_begin + i;
    });
    const OwnedElements owned(shards.plan, tensor, rank);
    for (std::int64_t begin = 0; begin < map.count(); begin += step) {
      const Range chunk{begin, std::min(begin + step, map.count())};
      owned.for_each_run(map, chunk, [&](const MappedRun& run) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const std::int64_t at = run.file + i * run.file_stride;
          EXPECT_GE(at, chunk.begin);
          EXPECT_LT(at, chunk.end);
          EXPECT_EQ(found.at(static_cast<std::size_t>(at)), -1) << "twice";
          found[static_cast<std::size_t>(at)] = tensor_of.at(run.arena + i);
        }
      });
    }
  }
  return found;
}

std::vector<std::int64_t> expected(const ElementMap& map) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < map.extent[0]; ++i)
    for (std::int64_t j = 0; j < map.extent[1]; ++j)
      for (std::int64_t k = 0; k < map.extent[2]; ++k)
        out.push_back(map.begin + i * map.stride[0] + j * map.stride[1] + k * map.stride[2]);
  return out;
}

TEST(ElementMap, every_element_has_one_place_whatever_the_chunks_and_the_ranks) {
  const std::vector<ElementMap> maps{
      ElementMap::straight(0, 60),  {0, {4, 3, 5}, {3, 1, 12}},  // [out, rank, expert]
      {0, {5, 3, 4}, {12, 1, 3}},   {24, {1, 2, 2}, {0, 3, 1}},  // a block of one expert
      ElementMap::straight(13, 20),
  };
  for (const int world : {1, 2, 3}) {
    const Shards shards(world);
    for (const ElementMap& map : maps)
      for (const std::int64_t step : {1, 7, 15, 60})
        EXPECT_EQ(elements_of(shards, 0, map, step), expected(map)) << world << " ranks, chunks of " << step;
    const ElementMap matrix = ElementMap::straight(0, 21);
    EXPECT_EQ(elements_of(shards, 1, matrix, 4), expected(matrix));
  }
}

TEST(ElementMap, ranks_of_an_expert_that_follow_each_other_are_one_run) {
  const Shards shards(1);
  int runs = 0;
  OwnedElements(shards.plan, 0, 0)
      .for_each_run({0, {4, 3, 5}, {3, 1, 12}}, {0, 60}, [&](const MappedRun& run) {
        EXPECT_EQ(run.count, 3);
        EXPECT_EQ(run.file_stride, 5);
        ++runs;
      });
  EXPECT_EQ(runs, 20);
}

}  // namespace
}  // namespace sluice
