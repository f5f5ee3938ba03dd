#include "ops/cpu/tiles/heads.hpp"

#include <algorithm>

namespace sluice::ops::cpu::tiles {
namespace {

/// The bits of [begin, end), of which both may lie outside of 32.
std::uint32_t bits(std::int64_t begin, std::int64_t end) { return lowest_bits(end) & ~lowest_bits(begin); }

}  // namespace

std::int64_t Heads::end_of_seeing(std::int64_t begin, std::int64_t end, std::int64_t key_end) const {
  if (document == nullptr) return end;
  return std::lower_bound(document + begin, document + end, key_end) - document;
}

bool Heads::all_see(std::int64_t position, std::int64_t begin, std::int64_t end) const {
  const std::int64_t last = position + kBlock - 1;
  return end <= position + 1 && last < length && first_key(last) <= begin;
}

void Heads::who_sees(std::int64_t position, std::int64_t begin, std::int64_t end, std::uint32_t* seen) const {
  const std::int64_t count = std::min(kBlock, length - position);
  std::int64_t last = document == nullptr ? count : 0;
  for (std::int64_t key = begin; key < end; ++key) {
    // Documents follow one another, so the queries that see a key are neighbours.
    while (last < count && first_key(position + last) <= key) ++last;
    *seen++ = bits(key - position, last);
  }
}

}  // namespace sluice::ops::cpu::tiles
