#include "shard/stored/stored_layout.hpp"

#include "encoding/dequantise.hpp"
#include "shard/models.hpp"
#include "shard/shard_values.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

/// Gate and up, and down, of every expert of a layer, each a published matrix of its own, in blocks that do
/// not divide it.
struct Published {
  ParameterManifest manifest = testing_models::moe({.layers = 2, .hidden = 6, .experts = 4, .width = 5});
  StoredTensors stored;
  std::vector<Bytes> codes, scales;  ///< bytes of each encoding, in their order

  Published() {
    for (const char* layer : {"model.layers.0.", "model.layers.1."})
      for (std::int64_t expert = 0; expert < 4; ++expert) {
        add(std::string(layer) + "mlp.experts.gate_up_proj", expert * 60, 5, 6);
        add(std::string(layer) + "mlp.experts.gate_up_proj", expert * 60 + 30, 5, 6);
        add(std::string(layer) + "mlp.experts.down_proj", expert * 30, 6, 5);
      }
  }

  void add(const std::string& name, std::int64_t begin, std::int64_t rows, std::int64_t columns) {
    Encoding encoding;
    encoding.rows = rows;
    encoding.columns = columns;
    encoding.block_rows = encoding.block_columns = 4;
    encoding.scale_begin = static_cast<std::int64_t>(stored.encodings.size());  // tells them apart
    encoding.scale_count = encoding.grid_rows() * encoding.grid_columns();
    stored.ranges.push_back(
        {*manifest.find(name), begin, rows * columns, static_cast<int>(stored.encodings.size()), 0});
    stored.encodings.push_back(encoding);
    Bytes& code = codes.emplace_back(static_cast<std::size_t>(rows * columns));
    for (std::byte& one : code) one = static_cast<std::byte>(random() % 127);
    Bytes& scale = scales.emplace_back(static_cast<std::size_t>(encoding.scale_bytes()));
    for (std::int64_t i = 0; i < encoding.scale_count; ++i) {
      const auto value = static_cast<float>(random() % 64);
      std::memcpy(scale.data() + i * size_of(DType::kFloat32), &value, sizeof(value));
    }
  }

  /// Element by element of one tensor, as its published matrices say.
  [[nodiscard]] std::vector<float> numbers_of(int tensor) const {
    std::vector<float> numbers(static_cast<std::size_t>(manifest[tensor].element_count()));
    for (const StoredRange& range : stored.ranges)
      if (range.tensor == tensor) {
        const auto i = static_cast<std::size_t>(range.encoding);
        dequantise(stored.encodings[i], {0, range.count}, codes[i].data(), scales[i].data(), DType::kFloat32,
                   reinterpret_cast<std::byte*>(numbers.data() + range.begin));
      }
    return numbers;
  }

  std::mt19937 random{7};
};

/// Keeps all that `rank` owns, row by row, as pieces of a load come.
ShardArena filled(const Published& published, const ShardPlan& plan, int rank) {
  ShardArena arena(plan, rank, DType::kFloat32, MemoryKind::kPrivate, "weights", ShardArena::Units::kAll,
                   &published.stored);
  for (const StoredRange& range : published.stored.ranges) {
    const auto i = static_cast<std::size_t>(range.encoding);
    const Encoding& encoding = published.stored.encodings[i];
    for (std::int64_t row = 0; row < range.count; row += encoding.columns)
      plan.owned_runs(
          range.tensor, {range.begin + row, range.begin + row + encoding.columns},
          [&](int owner, const ShardPlan::OwnedRun& run) {
            if (owner != rank) return;
            const std::int64_t element = run.tensor_begin - range.begin;
            const auto [unit, first] = plan.unit_element(rank, run.arena_begin);
            arena.stored()->store(
                unit, {first, first + run.count}, element, encoding, published.codes[i].data() + element,
                published.scales[i].data() +
                    encoding.scale_bytes({0, encoding.scales_of({element, element + run.count}).begin}),
                {arena.stored_data(unit), arena.stored()->own_bytes(unit).begin});
          });
  }
  return arena;
}

void expect_numbers(const ParallelDims& dims) {
  const Published published;
  const UnitLayouts layouts = make_unit_layouts(published.manifest, 1, published.stored.tensors());
  const ShardPlan plan(layouts, dims);
  const std::vector<std::vector<StoredBytes>> bytes = stored_bytes(plan, published.stored);
  std::vector<ShardArena> arenas;
  for (int rank = 0; rank < dims.world; ++rank) arenas.push_back(filled(published, plan, rank));
  for (int rank = 0; rank < dims.world; ++rank) {
    const StoredLayout& stored = *arenas[static_cast<std::size_t>(rank)].stored();
    std::int64_t own = 0;
    for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
      own += bytes[static_cast<std::size_t>(unit)][static_cast<std::size_t>(rank)].all();
      if (!plan.is_stored(unit)) continue;
      Bytes held;  // as a gather brings it
      for (int other = 0; other < dims.world; ++other) {
        const ShardArena& from = arenas[static_cast<std::size_t>(other)];
        if (plan.gathered_range(unit, other).begin != plan.gathered_range(unit, rank).begin) continue;
        held.insert(held.end(), from.stored_data(unit),
                    from.stored_data(unit) + from.stored()->own_bytes(unit).count());
      }
      ASSERT_EQ(std::ssize(held), stored.held_bytes(unit));
      for (const Placement& placement : layouts.units[static_cast<std::size_t>(unit)].placements()) {
        const std::vector<float> expected = published.numbers_of(placement.tensor);
        FlatLayout::for_each_run(placement, 0, std::ssize(expected), [&](const Run& run) {
          const Range elements{run.unit_begin, run.unit_begin + run.count},
              there = plan.gathered_range(unit, rank);
          if (elements.begin < there.begin || elements.end > there.end) return;
          std::vector<float> numbers(static_cast<std::size_t>(run.count));
          stored.dequantise(unit, elements, {held.data(), 0}, DType::kFloat32,
                            reinterpret_cast<std::byte*>(numbers.data()));
          EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), expected.begin() + run.tensor_begin));
        });
      }
    }
    EXPECT_EQ(stored.bytes(), own);
  }
}

TEST(StoredLayout, holds_whole_experts_where_these_are_owned) {
  expect_numbers({.world = 1, .expert_parallel = 1});
  expect_numbers({.world = 3, .expert_parallel = 3});
}

TEST(StoredLayout, holds_shares_of_experts_that_together_are_all_of_them) {
  expect_numbers({.world = 4, .expert_parallel = 2});
  // Some of these end a share behind the first element of a block.
  for (int world = 2; world <= 12; ++world) {
    SCOPED_TRACE(world);
    expect_numbers({.world = world, .expert_parallel = 1});
  }
}

TEST(StoredLayout, is_no_part_of_the_arena_and_read_like_it) {
  const Published published;
  const UnitLayouts layouts = make_unit_layouts(published.manifest, 1, published.stored.tensors());
  const UnitLayouts plain = make_unit_layouts(published.manifest);
  const ShardPlan plan(layouts, {.world = 3, .expert_parallel = 1}),
      all(plain, {.world = 3, .expert_parallel = 1});
  EXPECT_LT(plan.arena_elements(1), all.arena_elements(1));
  EXPECT_GT(plan.held_elements(1), plan.arena_elements(1));
  const ShardArena arena = filled(published, plan, 1);
  const ArenaValues values(arena);
  for (const int tensor : published.stored.tensors()) {
    const std::vector<float> expected = published.numbers_of(tensor);
    EXPECT_FALSE(plan.is_trained(layouts.unit_of(tensor)));
    plan.owned_runs(tensor, 1, [&](const ShardPlan::OwnedRun& run) {
      EXPECT_EQ(values.find(run.arena_begin, DType::kFloat32), nullptr);
      std::vector<float> numbers(static_cast<std::size_t>(run.count));
      values.read(run.arena_begin, run.count, DType::kFloat32, reinterpret_cast<std::byte*>(numbers.data()));
      EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), expected.begin() + run.tensor_begin));
    });
  }
}

TEST(StoredTensors, are_the_same_after_a_broadcast) {
  const StoredTensors stored = Published().stored, again = StoredTensors::from_bytes(stored.to_bytes());
  EXPECT_EQ(again.encodings, stored.encodings);
  EXPECT_EQ(again.tensors(), stored.tensors());
  EXPECT_EQ(again.elements(), stored.elements());
  EXPECT_EQ(again.to_bytes(), stored.to_bytes());
}

}  // namespace
}  // namespace sluice
