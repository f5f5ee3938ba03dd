// Packing of the sides of products that are widened to float32. Needs no LibTorch. Internal to src/ops.
#pragma once

#include "base/range.hpp"
#include "ops/cpu/products/micro_kernel.hpp"
#include "ops/cpu/products/operand.hpp"

namespace sluice::ops::cpu::products {

/// Packs a part of a side: its lines are the rows of `to` or, for a right side, its columns. Codes become numbers
/// some lines at a time.
void pack(const ProductKernel& kernel, const Operand& side, OperandSide of, Range lines, Range depth,
          float* to, const Runs& runs);

}  // namespace sluice::ops::cpu::products
