#include "shard/moves.hpp"

#include "shard/models.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

namespace sluice {
namespace {

/// Rank and element of its arena, of elements that are numbered.
using Places = std::map<std::int64_t, std::pair<int, std::int64_t>>;

Places places_of(const ShardPlan& plan, int tensor, std::int64_t count) {
  Places places;
  plan.owned_runs(tensor, {0, count}, [&](int rank, const ShardPlan::OwnedRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) places[run.tensor_begin + i] = {rank, run.arena_begin + i};
  });
  return places;
}

/// Element of the tensor that an element of the file is.
std::int64_t element_of(const FileRange& range, std::int64_t file) {
  if (range.stride > 0) return range.begin + file / range.columns * range.stride + file % range.columns;
  if (range.rows == 0) return range.begin + file;
  const std::int64_t matrix = file / range.matrix() * range.matrix(), inside = file - matrix;
  const std::int64_t column = inside % range.columns, plane = inside / range.columns % range.planes;
  return range.begin + matrix + (column * range.planes + plane) * range.rows +
         inside / range.columns / range.planes;
}

void add(const Move& move, Places& out) {
  const std::int64_t stride = move.is_box() ? move.row_stride : 1;
  for (std::int64_t line = 0; line < move.lines; ++line)
    for (std::int64_t i = 0; i < move.length(); ++i) {
      const auto [place, is_new] = out.emplace(move.file + line * move.line_stride + i,
                                               std::pair{move.rank, move.arena + i * stride + line});
      EXPECT_TRUE(is_new) << "element " << place->first << " is moved twice";
    }
}

/// Every part of the range is moved where the tensor's elements lie, by all ranks together and by each alone.
void expect_moves(const ShardPlan& plan, const FileRange& range, std::int64_t elements) {
  const Places places = places_of(plan, range.tensor, elements);
  for (const Range part : {Range{0, range.count}, Range{range.count / 3, range.count - range.count / 7},
                           Range{range.count / 2, range.count / 2 + 1}}) {
    Places together, apart, expected;
    for (std::int64_t i = part.begin; i < part.end; ++i) expected[i] = places.at(element_of(range, i));
    for_each_move(plan, range, part, {}, [&](const Move& move) { add(move, together); });
    for (int rank = 0; rank < plan.world(); ++rank)
      for_each_move(plan, range, part, rank, [&](const Move& move) {
        EXPECT_EQ(move.rank, rank);
        add(move, apart);
      });
    EXPECT_EQ(together, expected);
    EXPECT_EQ(apart, expected);
  }
}

TEST(Moves, bring_each_element_of_a_part_of_a_file_to_its_place) {
  const ParameterManifest manifest = testing_models::moe();
  const UnitLayouts layouts = make_unit_layouts(manifest);
  for (const ParallelDims dims : {ParallelDims{1, 1}, ParallelDims{5, 1}, ParallelDims{4, 2}}) {
    const ShardPlan plan(layouts, dims);
    for (const int tensor : manifest.stored_tensors()) {
      const TensorInfo& info = manifest[tensor];
      SCOPED_TRACE(info.name);
      const std::int64_t count = info.element_count();
      expect_moves(plan, {tensor, 0, count}, count);
      expect_moves(plan, {tensor, count / 5, count / 2}, count);
      expect_moves(
          plan, {.tensor = tensor, .begin = 1, .count = count / 4 / 3 * 3, .columns = 3, .stride = 4}, count);
      if (info.shape.size() != 3) continue;
      expect_moves(plan, {tensor, 0, count, info.shape[2], info.shape[1]}, count);
      expect_moves(plan,
                   {.tensor = tensor,
                    .count = count,
                    .rows = info.shape[2],
                    .columns = info.shape[0],
                    .planes = info.shape[1]},
                   count);
    }
  }
}

}  // namespace
}  // namespace sluice
