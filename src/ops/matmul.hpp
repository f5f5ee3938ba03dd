// Matrix products into memory of ours. Internal to src/ops.
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>

namespace sluice::ops {

/// Whether a product replaces what is there or is added to it.
enum class Into : bool { kReplace, kAdd };

/// The mode of a product that contributes to a part of a weight's gradient. Call it once for each product.
[[nodiscard]] inline Into into_gradient(const Parameter& weight, std::int64_t part = 0) {
  return adds_to_gradient(weight, part) ? Into::kAdd : Into::kReplace;
}

/// Products of up to so many rows cost what their rows do; of more, kernels are made for each number of rows
/// that is met.
inline constexpr std::int64_t kFewRows = 16;

/// out [m, n] = or += a [m, k] b [k, n]. a and b have one dtype; of each, rows or columns are
/// contiguous, and so are the rows of `out`. Of bfloat16, `out` may be float32: sums are float32 in any case,
/// and rounded once at most.
void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into = Into::kReplace);

/// a b, in their dtype.
[[nodiscard]] at::Tensor matmul(const at::Tensor& a, const at::Tensor& b);

}  // namespace sluice::ops
