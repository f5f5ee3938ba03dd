// Reductions whose result does not depend on timing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace sluice {

/// Combines parts in rank order: out[i] = combine(… combine(parts[0][i], parts[1][i]) …, parts.back()[i]) for
/// i < count. `out` may be one of the parts. Works block by block in the first-level cache, in loops that
/// vectorise.
template <class T, class Combine>
void combine_in_rank_order(std::span<const T* const> parts, T* out, std::int64_t count, Combine combine) {
  constexpr std::int64_t kBlock = 8192 / sizeof(T);
  std::array<T, kBlock> block;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    std::copy_n(parts[0] + begin, length, block.data());
    for (const T* part : parts.subspan(1)) {
      for (std::int64_t i = 0; i < length; ++i) block[i] = combine(block[i], part[begin + i]);
    }
    std::copy_n(block.data(), length, out + begin);
  }
}

}  // namespace sluice
