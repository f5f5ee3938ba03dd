// Rows of a quantised matrix where memory holds them, for whoever computes with codes.
#pragma once

#include "encoding/encoding.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// Whole rows of a quantised matrix, one after the other.
struct CodedRows {
  const Encoding* encoding = nullptr;
  std::int64_t row = 0;  ///< number of the first one, as the encoding counts the rows of all its matrices
  std::int64_t count = 0;
  const std::byte* codes = nullptr;   ///< code of their first element
  const std::byte* scales = nullptr;  ///< the first scale that they need
};

/// The numbers that 4-bit codes stand for.
[[nodiscard]] const std::array<float, 16>& numbers_of(Codes codes);

}  // namespace sluice
