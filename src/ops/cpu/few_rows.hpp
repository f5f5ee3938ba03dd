// Products of few rows with a weight. Memory bandwidth limits them, so each weight is read once, where it
// lies; matrix libraries would pack it for rows that do not exist. Internal to src/ops.
#pragma once

#include "base/range.hpp"
#include "ops/matmul.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace sluice::ops::cpu {

/// Whether multiply_few_rows() can compute the product of a [m, k] and b [k, n] into `out`: at most kFewRows
/// rows, dense, times a weight whose rows are dense (b is transposed), and the product replaces the contents
/// of `out`.
[[nodiscard]] bool is_few_rows_times_weight(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                            Into into);

/// Multiplies each range of the rows of a [m, k], of at most kFewRows rows, by the transpose of its own weight [n, k]
/// into the same rows of out [m, n]. `out` is float32 or has the type of a and the weights. Sums are float32; the sums of a row do not depend on the other
/// rows. Threads share the weights of all ranges, so that small products cost no region of threads each.
void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, std::span<const Range> ranges,
                       std::span<const at::Tensor> weights);

/// Callback that writes rows [begin, end) of the weight of a range to `out`, dense.
using WriteRows = std::function<void(std::size_t range, std::int64_t begin, std::int64_t end, void* out)>;

/// The same with weights that memory holds in another form: `write` converts each row once, to the type of a, some
/// rows at a time. Several threads call `write` at a time.
void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, std::span<const Range> ranges,
                       const WriteRows& write);

/// Dense rows of a matrix, `stride` elements apart.
template <class T>
struct DenseRows {
  const T* data;
  std::int64_t count, stride;
  /// The rows from number `begin` on.
  [[nodiscard]] DenseRows from(std::int64_t begin) const {
    return {data + begin * stride, count - begin, stride};
  }
};

/// The rows of a matrix, or those of `rows`, as numbers of its type.
template <class T>
[[nodiscard]] DenseRows<T> dense_rows(const at::Tensor& matrix, Range rows) {
  return {matrix.data_ptr<T>() + rows.begin * matrix.stride(0), rows.count(), matrix.stride(0)};
}
template <class T>
[[nodiscard]] DenseRows<T> dense_rows(const at::Tensor& matrix) {
  return dense_rows<T>(matrix, {0, matrix.size(0)});
}

/// Computes out [rows.count, weights.count], dense: the dot product of each row of `depth` elements and each
/// weight, on the calling thread. T is float or at::BFloat16.
template <class T>
void multiply_rows(const DenseRows<T>& rows, const DenseRows<T>& weights, std::int64_t depth, float* out);

}  // namespace sluice::ops::cpu
