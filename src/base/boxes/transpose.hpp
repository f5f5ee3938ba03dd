// Transposition of matrices in memory.
#pragma once

#include "base/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// A matrix in memory: rows begin `stride` elements apart. The address need not be aligned.
template <class Byte>
struct MatrixPlace {
  Byte* data;
  DType dtype;
  std::int64_t stride;
};

/// Transposes: element (row, column) of a matrix of `rows` times `columns` elements becomes element (column,
/// row) of `target`, converted to its type as convert_elements() does. Both types are float32, bfloat16,
/// float16 or float64; the matrices do not overlap.
void transpose_elements(const MatrixPlace<const std::byte>& source, std::int64_t rows, std::int64_t columns,
                        const MatrixPlace<std::byte>& target);

}  // namespace sluice
