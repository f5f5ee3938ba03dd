// Products of few rows with a weight. Memory bandwidth limits them, so each weight is read once, where it
// lies; matrix libraries would pack it for rows that do not exist. Internal to src/ops.
#pragma once

#include "ops/matmul.hpp"

#include <cstdint>
#include <functional>

namespace sluice::ops::cpu {

/// Whether multiply_few_rows() can compute the product of a [m, k] and b [k, n] into `out`: at most kFewRows
/// rows, dense, times a weight whose rows are dense (b is transposed), and the product replaces the contents
/// of `out`.
[[nodiscard]] bool is_few_rows_times_weight(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                            Into into);

/// Computes out = a b, where `out` is float32 or has the type of a and b. Sums are float32; the sums of a row
/// do not depend on the other rows.
void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// Callback that writes rows [begin, end) of a weight to `out`, dense.
using WriteRows = std::function<void(std::int64_t begin, std::int64_t end, void* out)>;

/// Computes out = a b where b is the transpose of a weight of `count` rows that memory holds in another form:
/// `write` converts each row once, to the type of a, some rows at a time. Several threads call `write` at a
/// time. a [m, k] has at most kFewRows rows.
void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, std::int64_t count,
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

/// Computes out [rows.count, weights.count], dense: the dot product of each row of `depth` elements and each
/// weight, on the calling thread. T is float or at::BFloat16.
template <class T>
void multiply_rows(const DenseRows<T>& rows, const DenseRows<T>& weights, std::int64_t depth, float* out);

}  // namespace sluice::ops::cpu
