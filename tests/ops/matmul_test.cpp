#include "ops/matmul.hpp"

#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/level.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/onednn_matmul.hpp"
#include "ops/cpu/products/widening.hpp"
#include "ops/cpu/tiles/matmul.hpp"
#include "ops/op_check.hpp"

#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace sluice::ops {
namespace {

/// [rows, columns], dense or the transpose of a dense matrix.
at::Tensor matrix(std::int64_t rows, std::int64_t columns, at::ScalarType dtype, bool transposed) {
  const auto seed = static_cast<std::uint64_t>(rows);
  return transposed ? numbers({columns, rows}, dtype, seed).t() : numbers({rows, columns}, dtype, seed);
}

/// Of every layout, replaced and added, against the same in float64.
void expect_products(std::int64_t m, std::int64_t k, std::int64_t n) {
  SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n);
  for (const at::ScalarType dtype : kDTypes) {
    for (const int layout : {0, 1, 2, 3}) {
      const at::Tensor a = matrix(m, k, dtype, (layout & 1) != 0);
      const at::Tensor b = matrix(k, n, dtype, (layout & 2) != 0);
      const at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble));
      const double tolerance = dtype == at::kFloat ? 1e-6 : 1e-2;
      expect_close(ops::matmul(a, b), expected, tolerance);
      const at::Tensor out = at::full({m, n}, 3.0F);
      ops::matmul(out, a, b);
      expect_close(out, expected, tolerance);
      ops::matmul(out, a, b, Into::kAdd);
      expect_close(out, 2 * expected, tolerance);
    }
  }
}

TEST(Matmul, takes_dense_matrices_and_their_transposes) {
  expect_products(33, 20, 17);
  expect_products(16, 64, 48);
}

TEST(Matmul, takes_single_rows_and_columns) {
  expect_products(1, 20, 17);
  expect_products(33, 1, 17);
  expect_products(33, 20, 1);
  expect_products(1, 1, 1);
}

TEST(Matmul, takes_every_number_of_few_rows) {
  for (std::int64_t rows = 1; rows <= kFewRows + 1; ++rows) expect_products(rows, 70, 11);
}

TEST(Matmul, of_few_rows_is_the_same_for_a_row_whatever_lies_beside_it) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor rows = numbers({kFewRows, 83}, dtype), weight = numbers({21, 83}, dtype, 2);
    const at::Tensor together = ops::matmul(rows, weight.t());
    for (std::int64_t row = 0; row < kFewRows; ++row)
      EXPECT_TRUE(ops::matmul(rows.narrow(0, row, 1), weight.t())[0].equal(together[row])) << row;
  }
}

TEST(Matmul, of_few_rows_with_several_weights_is_that_with_each) {
  constexpr std::array kRanges{Range{0, 1}, Range{1, 1 + kFewRows}, Range{1 + kFewRows, 19}};
  for (const at::ScalarType dtype : kDTypes) {
    const std::array weights{numbers({900, 83}, dtype, 2), numbers({900, 83}, dtype, 3),
                             numbers({900, 83}, dtype, 4)};
    const at::Tensor a = numbers({19, 83}, dtype);
    for (const int threads : {1, 2, 7}) {  // Which begin within a weight.
      const Threads some(threads);
      const at::Tensor out = at::empty({19, 900}, dtype);
      cpu::multiply_few_rows(out, a, kRanges, weights);
      for (std::size_t i = 0; i < kRanges.size(); ++i)
        EXPECT_TRUE(
            out.narrow(0, kRanges[i].begin, kRanges[i].count())
                .equal(ops::matmul(a.narrow(0, kRanges[i].begin, kRanges[i].count()), weights[i].t())))
            << "weight " << i << ", " << threads << " threads";
    }
  }
}

TEST(Matmul, of_few_rows_is_the_same_with_a_weight_that_is_written_some_rows_at_a_time) {
  for (const at::ScalarType dtype : kDTypes)
    for (const std::int64_t count : {1, 21, 900}) {
      const at::Tensor weight = numbers({count, 83}, dtype, 2);
      at::Tensor times_written = at::zeros({count}, at::kInt);
      const auto write = [&](std::size_t, std::int64_t begin, std::int64_t end, void* out) {
        std::memcpy(out, weight[begin].data_ptr(),
                    static_cast<std::size_t>(weight[0].nbytes()) * static_cast<std::size_t>(end - begin));
        times_written.narrow(0, begin, end - begin).add_(1);
      };
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, kFewRows}) {
        const at::Tensor a = numbers({rows, 83}, dtype), out = at::empty({rows, count}, dtype);
        cpu::multiply_few_rows(out, a, std::array{Range{0, rows}}, write);
        EXPECT_TRUE(out.equal(ops::matmul(a, weight.t()))) << rows << " rows, a weight of " << count;
      }
      EXPECT_TRUE(times_written.eq(3).all().item<bool>()) << count;
    }
}

TEST(Matmul, of_nothing_is_nothing) {
  for (const at::ScalarType dtype : kDTypes) {
    EXPECT_EQ(ops::matmul(numbers({0, 4}, dtype), numbers({4, 3}, dtype)).sizes(), at::IntArrayRef({0, 3}));
    const at::Tensor out = at::ones({2, 3});
    ops::matmul(out, numbers({2, 0}, dtype), numbers({0, 3}, dtype), Into::kAdd);
    EXPECT_TRUE(out.eq(1).all().item<bool>());
  }
}

TEST(Matmul, adds_large_products) {
  const at::Tensor a = numbers({2, 1050}, at::kBFloat16);
  const at::Tensor b = numbers({2, 4100}, at::kBFloat16, 2);
  const at::Tensor sum = at::ones({1050, 4100});
  ops::matmul(sum, a.t(), b, Into::kAdd);
  expect_close(sum, at::mm(a.t().to(at::kFloat), b.to(at::kFloat)) + 1, 1e-2);
}

TEST(Matmul, of_many_rows_and_much_depth_has_its_edges) {
  // More than is worked on at a time, and no multiple of anything.
  expect_products(1061, 1043, 45);
  expect_products(45, 530, 1061);
}

TEST(Matmul, of_many_rows_is_cut_into_strips_of_whole_blocks) {
  // Depths of 6 to 13 tiles, and rows that fill several strips.
  expect_products(2720, 192, 64);
  expect_products(2336, 200, 64);
  expect_products(1632, 320, 64);
  expect_products(3072, 400, 64);
}

TEST(Matmul, is_the_same_for_any_number_of_threads) {
  // Columns of few blocks, which no number of threads shares out alike.
  const at::Tensor a = numbers({300, 520}, at::kBFloat16);
  const at::Tensor b = numbers({520, 390}, at::kBFloat16, 2);
  Tensors outputs;
  for (const int count : {1, 2, 3, 8}) {
    const Threads threads(count);
    outputs.push_back(ops::matmul(a, b));
  }
  expect_close(outputs[0], at::mm(a.to(at::kDouble), b.to(at::kDouble)), 1e-2);
  for (const at::Tensor& output : outputs) {
    expect_close(output, outputs[0]);
    // Our own kernels' promise; oneDNN may share out the depth, and sum in another order.
    EXPECT_TRUE((!cpu::has_tiles() && cpu::onednn_has_products()) || output.equal(outputs[0]));
  }
}

TEST(Matmul, of_odd_shapes_has_its_edges) {
  for (const std::int64_t rows : {1, 3, 63, 65, 127}) expect_products(rows, 263, 67);
  expect_products(300, 37, 131);
  expect_products(17, 600, 33);
}

TEST(Matmul, is_added_to_bfloat16_and_rounded_once) {
  for (const std::int64_t rows : {5, 70}) {
    const at::Tensor a = numbers({rows, 300}, at::kBFloat16), b = numbers({300, 50}, at::kBFloat16, 2);
    const at::Tensor out = numbers({rows, 50}, at::kBFloat16, 3);
    const at::Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble)) + out;
    ops::matmul(out, a, b, Into::kAdd);
    expect_close(out, expected, 5e-3);
  }
}

TEST(Matmul, from_widened_factors_is_the_same_for_a_row_whatever_lies_beside_it) {
  const at::Tensor a = numbers({530, 700}, at::kBFloat16), weight = numbers({90, 700}, at::kBFloat16, 2);
  const auto product = [&](std::int64_t first, std::int64_t rows) {
    const at::Tensor some = a.narrow(0, first, rows), out = at::empty({rows, 90}, at::kBFloat16);
    cpu::widening_matmul(cpu::widening_kernel(), {out.data_ptr(), 90, false, false},
                         {cpu::kernel::bits(some), rows, 700, 700, 1},
                         {cpu::kernel::bits(weight), 90, 700, 700, 1});
    return out;
  };
  const at::Tensor together = product(0, 530);
  expect_close(together, at::mm(a.to(at::kDouble), weight.t().to(at::kDouble)), 1e-2);
  for (const std::int64_t rows : {1, 7, 64, 129})
    for (const int count : {1, 3}) {
      const Threads threads(count);
      EXPECT_TRUE(product(530 - rows, rows).equal(together.narrow(0, 530 - rows, rows))) << rows;
    }
}

TEST(Matmul, on_tiles_is_that_of_widened_factors) {
  // By vectors too on processors whose other products are faster.
  if (!cpu::has_tiles()) return;
  const at::Tensor a = numbers({75, 700}, at::kBFloat16), weight = numbers({290, 700}, at::kBFloat16, 2);
  const cpu::products::Operand left{cpu::kernel::bits(a), 75, 700, 700, 1},
      right{cpu::kernel::bits(weight), 290, 700, 700, 1};
  const at::Tensor on_tiles = at::empty({75, 290}), widened = at::empty({75, 290});
  cpu::tile_matmul({on_tiles.data_ptr(), 290, true, false}, left, right);
  cpu::widening_matmul(cpu::widening_kernel(), {widened.data_ptr(), 290, true, false}, left, right);
  expect_close(on_tiles, widened, 1e-3);
}

TEST(Matmul, of_whole_blocks_is_written_past_the_caches) { expect_products(64, 530, 512); }

TEST(Matmul, of_more_depth_than_tiles_are_laid_out_for_is_rounded_once) { expect_products(40, 4200, 300); }

TEST(Matmul, of_large_matrices_leaves_the_gap_after_each_row_alone) {
  const at::Tensor a = numbers({700, 610}, at::kBFloat16).t();
  const at::Tensor b = numbers({700, 77}, at::kBFloat16, 2);
  const at::Tensor buffer = at::full({610, 100}, 7.0F);
  ops::matmul(buffer.narrow(1, 0, 77), a, b);
  ops::matmul(buffer.narrow(1, 0, 77), a, b, Into::kAdd);
  expect_close(buffer.narrow(1, 0, 77), 2 * at::mm(a.to(at::kFloat), b.to(at::kFloat)), 1e-4);
  EXPECT_TRUE(buffer.narrow(1, 77, 23).eq(7.0F).all().item<bool>());

  const at::Tensor wide = numbers({700, 270}, at::kBFloat16, 3);
  const at::Tensor rounded = at::full({610, 300}, 7.0F, at::kBFloat16);
  ops::matmul(rounded.narrow(1, 0, 270), a, wide);
  expect_close(rounded.narrow(1, 0, 270), at::mm(a.to(at::kFloat), wide.to(at::kFloat)), 1e-2);
  EXPECT_TRUE(rounded.narrow(1, 270, 30).eq(7.0F).all().item<bool>());
}

TEST(Matmul, leaves_the_gap_after_each_row_alone) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor buffer = at::full({6, 20}, 7.0F);
    ops::matmul(buffer.narrow(1, 0, 16), numbers({3, 6}, dtype).t(), numbers({3, 16}, dtype, 2), Into::kAdd);
    EXPECT_TRUE(buffer.narrow(1, 16, 4).eq(7.0F).all().item<bool>());
  }
}

TEST(Matmul, reads_rows_that_lie_apart) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor wide = numbers({12, 40}, dtype);
    const at::Tensor a = wide.narrow(1, 8, 20);
    const at::Tensor b = numbers({20, 5}, dtype, 2);
    expect_close(ops::matmul(a, b), at::mm(a.to(at::kDouble), b.to(at::kDouble)),
                 dtype == at::kFloat ? 1e-6 : 1e-2);
  }
}

}  // namespace
}  // namespace sluice::ops
