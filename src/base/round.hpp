// Whole multiples.
#pragma once

#include <concepts>

namespace sluice {

/// How many parts of `size` > 0 hold `count` >= 0 things.
template <std::integral Number>
[[nodiscard]] constexpr Number divide_up(Number count, Number size) {
  return (count + size - 1) / size;
}

/// The least multiple of `size` > 0 that is not below `count` >= 0.
template <std::integral Number>
[[nodiscard]] constexpr Number round_up(Number count, Number size) {
  return divide_up(count, size) * size;
}

}  // namespace sluice
