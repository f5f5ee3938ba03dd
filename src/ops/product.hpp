// Matrix products into memory of ours. Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// Whether a product replaces what is there or is added to it.
enum class Into : bool { kReplace, kAdd };

/// out [m, n] = or += a [m, k] b [k, n]. a and b have one dtype; of each, rows or columns are
/// contiguous, and so are the rows of `out`. Of bfloat16, `out` may be float32: sums are float32 in any case,
/// and rounded once at most.
void product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into = Into::kReplace);

/// a b, in their dtype.
[[nodiscard]] at::Tensor product(const at::Tensor& a, const at::Tensor& b);

}  // namespace sluice::ops
