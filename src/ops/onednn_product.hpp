// Products of bfloat16 by oneDNN's kernels. Internal to src/ops.
#pragma once

#include "ops/product.hpp"

namespace sluice::ops {

/// As product(), of bfloat16, none of whose sides is empty. Returns false, with `out` as it was, where oneDNN
/// has no kernel with instructions of this processor or the program was built without it.
[[nodiscard]] bool onednn_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);

}  // namespace sluice::ops
