// Rows of tokens as 8-bit codes, in which they are sent to experts.
#pragma once

#include "encoding/encoding.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Rows of `width` elements, each of which lies as float32 scales for blocks of 128 elements, the last one perhaps
/// smaller, and then a code of INT8 for each element, up to a multiple of 4 bytes.
class TokenRows {
 public:
  explicit TokenRows(std::int64_t width);

  /// Bytes of a row.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Rounds a row to the nearest codes; a block with NaN or an infinity becomes NaN.
  void write(const float* values, std::byte* row) const;
  /// Reads a row as dequantise() does, to bfloat16 or float32 of the same value.
  void read(const std::byte* row, DType to, std::byte* values) const;

 private:
  Encoding encoding_;
  std::int64_t bytes_;
};

}  // namespace sluice
