// Sides of products, as numbers of bfloat16 or as codes of them. Internal to src/ops.
#pragma once

#include "base/range.hpp"
#include "encoding/coded_rows.hpp"

#include <cstdint>
#include <span>

namespace sluice::ops::cpu::products {

enum class OperandSide : bool { kLeft, kRight };

/// One side of a product: its lines are the rows of the left or the columns of the right matrix, each of
/// `depth` bfloat16 numbers. One of the two strides (in elements) is 1.
struct Operand {
  const std::uint16_t* data;
  std::int64_t lines, depth, line_stride, depth_stride;
  /// The lines where memory holds them as codes, which can_be_side(); then `data` is null and depth_stride 1.
  std::span<const CodedRows> codes = {};
};

/// Whether rows can be the lines of a side: there are some, and each begins at a whole byte.
[[nodiscard]] bool can_be_side(std::span<const CodedRows> codes);

/// Part of a side, as numbers: codes are dequantised into memory of this thread, which holds them until the
/// thread's next call, so that few lines stay in a cache.
[[nodiscard]] Operand part_of(const Operand& side, Range lines, Range depth);

}  // namespace sluice::ops::cpu::products
