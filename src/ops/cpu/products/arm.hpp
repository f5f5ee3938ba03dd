// The kernels of products of 64-bit Arm processors. Needs no LibTorch. Internal to src/ops.
//
// bfloat16 products have packers of their own: numbers stay bfloat16, and both sides are packed alike, in
// panels of eight lines (rows of the left side, columns of the right one). A panel has, for each four of the
// depth, the four numbers of its lines 0 and 1, of lines 2 and 3, and so on: the matrices of two by four that
// BFMMLA multiplies.
#pragma once

#include "ops/cpu/products/micro_kernel.hpp"

#include <cstdint>

#if defined(__aarch64__)

namespace sluice::ops::cpu::products {

extern const ProductKernel kNeon;

namespace arm_bfloat16 {

/// Number of lines of a panel, on both sides.
inline constexpr std::int64_t kLines = 8;
/// Numbers of the depth that one instruction multiplies; a panel has whole ones, zeros beyond the matrix.
inline constexpr std::int64_t kStep = 4;

/// Number of bfloat16 numbers of a panel of so much depth.
constexpr std::int64_t panel_size(std::int64_t depth) { return (depth + kStep - 1) / kStep * kStep * kLines; }

/// Whether this processor has the instructions, and the system tells of them.
[[nodiscard]] bool serves();

/// Packs up to kLines rows of `from`, which are the lines, into one panel.
void pack_rows(const Halves& from, std::uint16_t* panel);
/// Packs up to kLines columns of `from`, which are the lines, into one panel.
void pack_columns(const Halves& from, std::uint16_t* panel);

/// Multiplies the first `rows` lines of a left panel with those of a right panel. Sums are made in float32 as
/// BFMMLA makes them: rounded to odd, and numbers too small for a normal float32 are zero.
void multiply(const std::uint16_t* left, std::int64_t rows, const std::uint16_t* right, std::int64_t depth,
              const Sums& sums);

}  // namespace arm_bfloat16
}  // namespace sluice::ops::cpu::products

#endif
