// Products of bfloat16 matrices on tiles. oneDNN's products neither fetch the next lines from memory while they
// multiply nor store gradients past the caches, and take 1.05 to 1.7 times as long on an expert's sizes.
// Internal to src/ops.
#pragma once

#include "ops/cpu/products/operand.hpp"
#include "ops/cpu/products/product.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// Largest depth of a product that is rounded.
inline constexpr std::int64_t kMaxRoundedDepth = 4096;

/// Computes out [left.lines, right.lines] = or += left right, whose depths are equal and > 0; bfloat16 is not added
/// to. Requires has_tiles(). Each thread keeps up to some MiB for its next call.
void tile_matmul(const ProductTarget& out, const products::Operand& left, const products::Operand& right);

}  // namespace sluice::ops::cpu
