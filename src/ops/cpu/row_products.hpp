// Products of all rows of a left side with some weights, a tile of up to four of each at a time. Internal to
// src/ops.
#pragma once

#include "base/range.hpp"
#include "base/round.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::ops::cpu {

/// Output of products: rows with one number for each weight, `stride` elements apart.
template <class Out>
struct OutRows {
  Out* data;
  std::int64_t stride;
};

template <class Out>
[[nodiscard]] OutRows<Out> out_rows(const at::Tensor& out, std::int64_t row, std::int64_t column) {
  return {out.data_ptr<Out>() + row * out.stride(0) + column, out.stride(0)};
}

/// Number of weight rows that are multiplied at once: with four rows of the left side, their sums fill the
/// registers.
inline constexpr std::int64_t kWeightsAtOnce = 4;

/// Computes the products of all rows with weights [begin, begin + kWeights). left.multiply<kRows,
/// kWeights>(first row, weights, sums) computes those of a tile; all.from(begin) are the weights from `begin`
/// on.
template <std::int64_t kWeights, class Left, class Weights, class Out>
void multiply_weights(const Left& left, std::int64_t rows, const Weights& all, std::int64_t begin,
                      const OutRows<Out>& out) {
  const Weights weights = all.from(begin);
  std::array<float, 4 * kWeights> sums;
  const auto multiply_rows = [&]<std::int64_t kRows>(std::int64_t first) {
    left.template multiply<kRows, kWeights>(first, weights, sums.data());
    for (std::int64_t r = 0; r < kRows; ++r)
      kernel::store_row(sums.data() + r * kWeights, kWeights, out.data + (first + r) * out.stride + begin);
    return kRows;
  };
  std::int64_t row = 0;
  while (row + 4 <= rows) row += multiply_rows.template operator()<4>(row);
  if (row + 2 <= rows) row += multiply_rows.template operator()<2>(row);
  if (row < rows) multiply_rows.template operator()<1>(row);
}

/// Computes the products of all rows with weights [begin, end).
template <class Left, class Weights, class Out>
void multiply_range(const Left& left, std::int64_t rows, const Weights& weights, std::int64_t begin,
                    std::int64_t end, const OutRows<Out>& out) {
  for (; begin + kWeightsAtOnce <= end; begin += kWeightsAtOnce)
    multiply_weights<kWeightsAtOnce>(left, rows, weights, begin, out);
  for (; begin < end; ++begin) multiply_weights<1>(left, rows, weights, begin, out);
}

/// Shares the weights of several products out among threads: calls work(product, range) for ranges of the `count`
/// weights of depth `depth` that each product has; ranges begin at multiples of `quantum`.
template <class Work>
void share_weights(std::int64_t products, std::int64_t count, std::int64_t quantum, std::int64_t depth,
                   const Work& work) {
  const std::int64_t pieces = divide_up(count, quantum);
  at::parallel_for(
      0, products * pieces, kernel::grain(quantum * depth), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t product = first / pieces; product * pieces < last; ++product) {
          const std::int64_t begin = product * pieces;
          const Range own = common({first, last}, {begin, begin + pieces});
          work(static_cast<std::size_t>(product),
               Range{(own.begin - begin) * quantum, std::min((own.end - begin) * quantum, count)});
          poll_progress();
        }
      });
}

}  // namespace sluice::ops::cpu
