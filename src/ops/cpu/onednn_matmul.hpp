// Products of bfloat16 by oneDNN's kernels. Internal to src/ops.
#pragma once

#include "ops/matmul.hpp"

namespace sluice::ops::cpu {

/// Whether the program was built with oneDNN, and oneDNN has bfloat16 instructions for this processor.
[[nodiscard]] bool onednn_has_products();

/// Computes matmul() of bfloat16 matrices, none of whose sides is empty. Returns false, with `out` unchanged,
/// if oneDNN has no kernel for the product. Requires onednn_has_products().
[[nodiscard]] bool onednn_matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);

}  // namespace sluice::ops::cpu
