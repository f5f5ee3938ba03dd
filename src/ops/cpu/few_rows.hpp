// Products of few rows with a weight: memory sets their pace, so each weight is read once, where it lies.
// Matrix libraries lay it out for rows that are not there. Internal to src/ops.
#pragma once

#include "ops/matmul.hpp"

#include <cstdint>
#include <functional>

namespace sluice::ops::cpu {

/// Whether multiply_few_rows() takes the product of a [m, k] and b [k, n] into out: kFewRows at most, dense,
/// times a weight whose rows are dense (b transposed), that replace what was there.
[[nodiscard]] bool is_few_rows_times_weight(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                                            Into into);

/// out = a b; out is of float32 or of the type of a and b. Sums in float32; a row's do not depend on the rows
/// beside it.
void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b);

/// Writes rows [begin, end) of a weight to `out`, dense.
using WriteRows = std::function<void(std::int64_t begin, std::int64_t end, void* out)>;

/// The same where b is the transpose of a weight of `count` rows that memory holds in another form: each row
/// is written once, in the type of a, some rows at a time. Several threads call `write` at a time. a [m, k]
/// has kFewRows rows at most.
void multiply_few_rows(const at::Tensor& out, const at::Tensor& a, std::int64_t count,
                       const WriteRows& write);

/// Dense rows, `stride` elements apart.
template <class T>
struct DenseRows {
  const T* data;
  std::int64_t count, stride;
};

/// out [rows.count, weights.count], dense: each row of `depth` elements times each weight, on the thread that
/// calls. T is float or at::BFloat16.
template <class T>
void multiply_rows(const DenseRows<T>& rows, const DenseRows<T>& weights, std::int64_t depth, float* out);

}  // namespace sluice::ops::cpu
