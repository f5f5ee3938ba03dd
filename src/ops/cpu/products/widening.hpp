// Products of bfloat16 matrices for processors that multiply float32 alone: parts of the factors are widened
// while they are packed into caches. No copy of a factor lies in memory, as a BLAS would need it, and would
// pack it once more. Internal to src/ops.
#pragma once

#include "ops/cpu/products/micro_kernel.hpp"
#include "ops/cpu/products/operand.hpp"
#include "ops/cpu/products/product.hpp"

namespace sluice::ops::cpu {

/// Computes out [left.lines, right.lines] = or += left right, whose depths are equal and > 0. A number is
/// summed in an order that follows from the depth and the kernel. Each thread keeps up to a MiB for its
/// next call.
void widening_matmul(const products::ProductKernel& kernel, const ProductTarget& out,
                     const products::Operand& left, const products::Operand& right);

}  // namespace sluice::ops::cpu
