#include "load/row_quantiser.hpp"

#include "base/error.hpp"
#include "encoding/dequantise.hpp"
#include "encoding/quantise.hpp"
#include "shard/models.hpp"
#include "shard/shard_values.hpp"
#include "weights/stored_forms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sluice {
namespace {

/// A model whose matrices are quantised, with numbers of the whole of each.
class Base {
 public:
  Base(Codes codes, ParallelDims dims)
      : stored_(quantised_matrices(manifest_, codes, false)), plan_(layouts_, dims) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (const TensorInfo& tensor : manifest_.tensors()) {
      std::vector<float>& numbers = numbers_.emplace_back(static_cast<std::size_t>(tensor.element_count()));
      for (float& number : numbers) number = normal(random);
    }
  }

  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] const StoredTensors& stored() const { return stored_; }
  [[nodiscard]] const std::vector<float>& numbers(int tensor) const {
    return numbers_[static_cast<std::size_t>(tensor)];
  }
  [[nodiscard]] ShardArena arena(int rank) const {
    return {plan_, rank, DType::kFloat32, MemoryKind::kPrivate, "weights", ShardArena::Units::kAll, &stored_};
  }

  /// Every element that a rank owns is the nearest code's number, of its row of the whole tensor.
  void expect_rounded(const ShardArena& arena) const {
    const ArenaValues values(arena);
    for (const StoredRange& range : stored_.ranges) {
      const Encoding& encoding = stored_.encodings[static_cast<std::size_t>(range.encoding)];
      const std::vector<float> expected = rounded(encoding, numbers(range.tensor));
      plan_.owned_runs(range.tensor, arena.rank(), [&](const ShardPlan::OwnedRun& run) {
        std::vector<float> found(static_cast<std::size_t>(run.count));
        values.read(run.arena_begin, run.count, DType::kFloat32, reinterpret_cast<std::byte*>(found.data()));
        const auto begin = expected.begin() + run.tensor_begin;
        EXPECT_EQ(found, std::vector<float>(begin, begin + run.count)) << encoding.text();
      });
    }
  }

 private:
  static std::vector<float> rounded(const Encoding& encoding, const std::vector<float>& numbers) {
    const std::int64_t count = std::ssize(numbers);
    std::vector<std::byte> codes(static_cast<std::size_t>(encoding.code_bytes(count))),
        scales(static_cast<std::size_t>(encoding.scale_bytes()));
    quantise_rows(encoding, count / encoding.columns, numbers.data(), codes.data(), scales.data());
    std::vector<float> out(numbers.size());
    dequantise(encoding, {0, count}, codes.data(), scales.data(), DType::kFloat32,
               reinterpret_cast<std::byte*>(out.data()));
    return out;
  }

  ParameterManifest manifest_ = testing_models::moe({.layers = 2, .hidden = 70, .experts = 4, .width = 5});
  StoredTensors stored_;
  UnitLayouts layouts_ = make_unit_layouts(manifest_, 1, stored_.tensors());
  ShardPlan plan_;
  std::vector<std::vector<float>> numbers_;
};

const std::byte* bytes_of(const float* numbers) { return reinterpret_cast<const std::byte*>(numbers); }

/// What a rank owns, in pieces of `step` elements that come from the last to the first.
void load_in_pieces(const Base& base, ShardArena& arena, std::int64_t step) {
  RowQuantiser quantiser(arena);
  for (const StoredRange& range : base.stored().ranges)
    base.plan().owned_runs(range.tensor, arena.rank(), [&](const ShardPlan::OwnedRun& run) {
      for (std::int64_t begin = (run.count - 1) / step * step; begin >= 0; begin -= step) {
        LoadMove move;
        move.arena = run.arena_begin + begin;
        move.count = std::min(step, run.count - begin);
        quantiser.add(move, bytes_of(base.numbers(range.tensor).data() + run.tensor_begin + begin));
      }
    });
  quantiser.finish();
}

/// The same of transposed matrices, in boxes of `columns` columns.
void load_in_boxes(const Base& base, ShardArena& arena, std::int64_t columns) {
  RowQuantiser quantiser(arena);
  for (const StoredRange& range : base.stored().ranges) {
    const std::int64_t row = base.stored().encodings[static_cast<std::size_t>(range.encoding)].columns;
    base.plan().owned_runs(range.tensor, arena.rank(), [&](const ShardPlan::OwnedRun& run) {
      const std::int64_t rows = run.count / row;
      std::vector<float> turned(static_cast<std::size_t>(run.count));
      for (std::int64_t i = 0; i < run.count; ++i)
        turned[static_cast<std::size_t>(i % row * rows + i / row)] =
            base.numbers(range.tensor)[static_cast<std::size_t>(run.tensor_begin + i)];
      for (std::int64_t begin = 0; begin < row; begin += columns) {
        LoadMove move;
        move.arena = run.arena_begin + begin;
        move.lines = std::min(columns, row - begin);
        move.count = move.lines * rows;
        move.line_stride = rows;
        move.row_stride = rows == 1 ? 0 : row;
        quantiser.add(move, bytes_of(turned.data() + begin * rows));
      }
    });
  }
  quantiser.finish();
}

template <class Load>
void expect_rounded(Load load) {
  for (const Codes codes : {Codes::kInt8, Codes::kNormalFloat4})
    for (const ParallelDims dims : {ParallelDims{1, 1}, ParallelDims{3, 1}, ParallelDims{3, 3}}) {
      const Base base(codes, dims);
      for (int rank = 0; rank < dims.world; ++rank) {
        ShardArena arena = base.arena(rank);
        load(base, arena);
        base.expect_rounded(arena);
      }
    }
}

TEST(RowQuantiser, rows_are_the_same_in_pieces_of_any_length) {
  for (const std::int64_t step : {1, 7, 70, 200, 100'000})
    expect_rounded([&](const Base& base, ShardArena& arena) { load_in_pieces(base, arena, step); });
}

TEST(RowQuantiser, rows_are_the_same_in_boxes_of_transposed_matrices) {
  for (const std::int64_t columns : {1, 3, 100})
    expect_rounded([&](const Base& base, ShardArena& arena) { load_in_boxes(base, arena, columns); });
}

TEST(RowQuantiser, matrices_with_odd_rows_have_no_nf4) {
  const Base int8(Codes::kInt8, {1, 1}), nf4(Codes::kNormalFloat4, {1, 1});
  EXPECT_EQ(int8.stored().ranges.size(), 6U);  // queries, and both matrices of experts, of two layers
  EXPECT_EQ(nf4.stored().ranges.size(), 4U);   // down projections have 5 columns
}

TEST(RowQuantiser, a_row_that_never_comes_whole_is_an_error) {
  const Base base(Codes::kInt8, {1, 1});
  ShardArena arena = base.arena(0);
  RowQuantiser quantiser(arena);
  const StoredRange& range = base.stored().ranges.front();
  base.plan().owned_runs(range.tensor, 0, [&](const ShardPlan::OwnedRun& run) {
    LoadMove move;
    move.arena = run.arena_begin;
    move.count = 71;
    quantiser.add(move, bytes_of(base.numbers(range.tensor).data()));
  });
  EXPECT_THROW(quantiser.finish(), Error);
}

}  // namespace
}  // namespace sluice
