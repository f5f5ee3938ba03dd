// Products of bfloat16 by oneDNN's kernels. Internal to src/ops.
#pragma once

#include "ops/matmul.hpp"

namespace sluice::ops::cpu {

/// Whether oneDNN has instructions of this processor for bfloat16, and the program was built with it.
[[nodiscard]] bool onednn_has_products();

/// matmul() of bfloat16 matrices, none of whose sides is empty. Returns false, with `out` as it was, where
/// oneDNN has no kernel for it. Requires onednn_has_products().
[[nodiscard]] bool onednn_matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);

}  // namespace sluice::ops::cpu
