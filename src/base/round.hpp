// Division and rounding to whole multiples.
#pragma once

#include <concepts>

namespace sluice {

/// Number of parts of `size` > 0 that hold `count` >= 0 things.
template <std::integral Number>
[[nodiscard]] constexpr Number divide_up(Number count, Number size) {
  return (count + size - 1) / size;
}

/// Least multiple of `size` > 0 that is at least `count` >= 0.
template <std::integral Number>
[[nodiscard]] constexpr Number round_up(Number count, Number size) {
  return divide_up(count, size) * size;
}

}  // namespace sluice
