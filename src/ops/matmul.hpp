// Matrix products into given memory. Internal to src/ops.
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>

namespace sluice::ops {

/// Whether a product replaces the numbers in its destination or is added to them.
enum class Into : bool { kReplace, kAdd };

/// Mode of a product that contributes to a part of a weight's gradient. Must be called once for each product.
[[nodiscard]] inline Into into_gradient(const Parameter& weight, std::int64_t part = 0) {
  return adds_to_gradient(weight, part) ? Into::kAdd : Into::kReplace;
}

/// Largest number of rows for which a product is computed row by row; for more rows kernels are compiled for
/// each number of rows.
inline constexpr std::int64_t kFewRows = 16;

/// out [m, n] = or += a [m, k] b [k, n]. a and b have one dtype, and each has contiguous rows or columns;
/// `out` has contiguous rows. For bfloat16 `out` may be float32: sums are float32 in any case, and rounded
/// once at most.
void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into = Into::kReplace);

/// Product a b, in their dtype.
[[nodiscard]] at::Tensor matmul(const at::Tensor& a, const at::Tensor& b);

}  // namespace sluice::ops
