#include "ops/cpu/attention/heads.hpp"

#include <algorithm>

namespace sluice::ops::cpu::attention_blocks {
namespace {

/// Returns 32 bits with bits [begin, end) set; both bounds may lie outside 0 .. 32.
std::uint32_t bits(std::int64_t begin, std::int64_t end) {
  return tiles::lowest_bits(end) & ~tiles::lowest_bits(begin);
}

}  // namespace

std::int64_t HeadShape::end_of_seeing(std::int64_t begin, std::int64_t end, std::int64_t key_end) const {
  if (document == nullptr) return end;
  return std::lower_bound(document + begin, document + end, key_end) - document;
}

bool HeadShape::all_see(std::int64_t position, std::int64_t begin, std::int64_t end) const {
  const std::int64_t last = position + kBlock - 1;
  return end <= position + 1 && last < length && first_key(last) <= begin;
}

void HeadShape::who_sees(std::int64_t position, std::int64_t begin, std::int64_t end,
                         std::uint32_t* seen) const {
  const std::int64_t count = std::min(kBlock, length - position);
  std::int64_t last = document == nullptr ? count : 0;
  for (std::int64_t key = begin; key < end; ++key) {
    // Documents follow one another, so the queries that attend to a key are consecutive.
    while (last < count && first_key(position + last) <= key) ++last;
    *seen++ = bits(key - position, last);
  }
}

}  // namespace sluice::ops::cpu::attention_blocks
