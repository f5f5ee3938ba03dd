// Boxes: rectangles of row-major matrices.
#pragma once

#include "base/range.hpp"

#include <array>
#include <cstdint>

namespace sluice {

/// A box: some rows of a matrix, and of each row the same columns.
struct Box {
  Range rows;
  Range columns;
  [[nodiscard]] bool is_empty() const { return rows.count() <= 0 || columns.count() <= 0; }
};

/// Cuts consecutive elements of a row-major matrix with rows of `width` elements into three boxes, in this
/// order: the end of a row, whole rows, the beginning of a row. A box may be empty.
[[nodiscard]] constexpr std::array<Box, 3> boxes_of(Range elements, std::int64_t width) {
  const std::int64_t first = elements.begin / width, last = elements.end / width;
  const std::int64_t head = elements.begin % width, tail = elements.end % width;
  if (first == last) return {Box{{first, first + 1}, {head, tail}}, Box(), Box()};
  const std::int64_t whole = head == 0 ? first : first + 1;
  return {Box{{first, whole}, {head, width}}, Box{{whole, last}, {0, width}},
          Box{{last, last + 1}, {0, tail}}};
}

}  // namespace sluice
