// Integer casts and arithmetic that refuse to lose a value. Use them wherever a number comes from a file or
// goes to an API.
#pragma once

#include "base/error.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

namespace sluice {

/// `value` as To; Error(kInternal) if To cannot hold it.
template <std::integral To, std::integral From>
[[nodiscard]] To checked_cast(From value) {
  SLUICE_ASSERT(std::in_range<To>(value), "the number {} does not fit its type", value);
  return static_cast<To>(value);
}

/// Product a * b, or nothing if it overflows.
[[nodiscard]] inline std::optional<std::int64_t> multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Sum a + b, or nothing if it overflows.
[[nodiscard]] inline std::optional<std::int64_t> add(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

}  // namespace sluice
