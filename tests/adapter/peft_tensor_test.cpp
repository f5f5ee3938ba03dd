#include "adapter/peft_tensor.hpp"

#include "manifest/manifest.hpp"
#include "shard/flat_layout.hpp"
#include "support/expect_error.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr const char* kExperts = "model.layers.0.mlp.experts.down_proj.lora_B";
constexpr const char* kMatrix = "model.layers.0.self_attn.q_proj.lora_B.weight";

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
  manifest.add(tensor(kExperts, {5, 4, 3}, Role::kExpert));
  manifest.add(tensor(kMatrix, {7, 3}, Role::kAttention));
  return manifest;
}

struct Shards {
  explicit Shards(int world) : plan(layouts, {world, world}) {}
  ParameterManifest manifest = experts_and_matrix();
  UnitLayouts layouts = make_unit_layouts(manifest);
  ShardPlan plan;
};

/// The element of the adapter's tensor that each element of the file is, put together from the moves of all
/// ranks for chunks of `room`; each must be there once.
std::vector<std::int64_t> elements_of(const Shards& shards, const PeftTensor& file, std::int64_t room) {
  const int tensor = *shards.manifest.find(file.parts.front().tensor);
  std::vector<std::int64_t> found(static_cast<std::size_t>(file.parts.back().end()), -1);
  for (int rank = 0; rank < shards.plan.world(); ++rank) {
    std::map<std::int64_t, std::int64_t> tensor_of;  // tensors keyed by their place in the arena
    shards.plan.owned_runs(tensor, rank, [&](const ShardPlan::OwnedRun& run) {
      for (std::int64_t i = 0; i < run.count; ++i) tensor_of[run.arena_begin + i] = run.tensor_begin + i;
    });
    for_each_chunk(file, room, [&](Range chunk) {
      for_each_move(file, shards.manifest, shards.plan, rank, chunk, [&](const Move& move) {
        const std::int64_t step = move.is_box() ? move.row_stride : 1;
        for (std::int64_t line = 0; line < move.lines; ++line)
          for (std::int64_t i = 0; i < move.length(); ++i) {
            const std::int64_t at = move.file + line * move.line_stride + i;
            EXPECT_TRUE(chunk.begin <= at && at < chunk.end) << at;
            EXPECT_EQ(found.at(static_cast<std::size_t>(at)), -1) << "twice";
            found[static_cast<std::size_t>(at)] = tensor_of.at(move.arena + i * step + line);
          }
      });
    });
  }
  return found;
}

void expect_elements(const std::vector<PeftPart>& parts, const std::vector<std::int64_t>& expected) {
  const PeftTensor file{{"adapter", DType::kFloat32, {std::ssize(expected)}}, parts};
  for (const int world : {1, 2, 3})
    for (const std::int64_t room : {1, 7, 15, 60})
      EXPECT_EQ(elements_of(Shards(world), file, room), expected) << world << " ranks, chunks of " << room;
}

TEST(PeftTensor, experts_that_vary_fastest_have_one_place_each_whatever_the_chunks_and_the_ranks) {
  std::vector<std::int64_t> expected;
  for (std::int64_t out = 0; out < 4; ++out)
    for (std::int64_t rank = 0; rank < 3; ++rank)
      for (std::int64_t expert = 0; expert < 5; ++expert) expected.push_back(expert * 12 + out * 3 + rank);
  expect_elements({{kExperts, 0, {.count = 60, .rows = 12, .columns = 5}}}, expected);
}

TEST(PeftTensor, experts_by_position_have_all_dims_reversed) {
  std::vector<std::int64_t> expected;
  for (std::int64_t in = 0; in < 3; ++in)
    for (std::int64_t rank = 0; rank < 4; ++rank)
      for (std::int64_t expert = 0; expert < 5; ++expert) expected.push_back(expert * 12 + rank * 3 + in);
  expect_elements({{kExperts, 0, {.count = 60, .rows = 3, .columns = 5, .planes = 4}}}, expected);
}

TEST(PeftTensor, rows_of_one_expert_lie_apart_where_two_weights_are_joined) {
  expect_elements({{kExperts, 0, {.begin = 25, .count = 8, .columns = 2, .stride = 3}}},
                  {25, 26, 28, 29, 31, 32, 34, 35});
}

TEST(PeftTensor, parts_follow_each_other_in_the_file) {
  expect_elements({{kMatrix, 0, {.begin = 12, .count = 9}}, {kMatrix, 9, {.begin = 0, .count = 12}}},
                  {12, 13, 14, 15, 16, 17, 18, 19, 20, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST(PeftTensor, a_part_that_its_tensor_has_no_room_for_is_refused) {
  const Shards shards(1);
  const PeftTensor file{{"adapter", DType::kFloat32, {22}}, {{kMatrix, 0, {.count = 22}}}};
  test::expect_error(ExitCode::kInternal, {"too large", kMatrix},
                     [&] { static_cast<void>(elements_of(shards, file, 60)); });
}

}  // namespace
}  // namespace sluice
