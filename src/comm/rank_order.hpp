// Reductions whose result does not depend on timing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace sluice {

/// Combines parts in rank order: out[i] = combine(… combine(parts[0][i], parts[1][i]) …, parts.back()[i]) for
/// i < count, each part's element as a T. `out` may be one of the parts. Works block by block in the first-level
/// cache, in loops that vectorise.
template <class T, class Part, class Combine>
void combine_in_rank_order(std::span<const Part* const> parts, T* out, std::int64_t count, Combine combine) {
  constexpr std::int64_t kBlock = 8192 / sizeof(T);
  std::array<T, kBlock> block;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    for (std::int64_t i = 0; i < length; ++i) block[i] = static_cast<T>(parts[0][begin + i]);
    for (const Part* part : parts.subspan(1)) {
      for (std::int64_t i = 0; i < length; ++i) block[i] = combine(block[i], static_cast<T>(part[begin + i]));
    }
    std::copy_n(block.data(), length, out + begin);
  }
}

}  // namespace sluice
