#include "data/permutation.hpp"

#include "base/error.hpp"

#include <bit>

namespace sluice {

Permutation::Permutation(std::int64_t size, const RandomStream& keys)
    : size_(static_cast<std::uint64_t>(size)),
      half_bits_(static_cast<int>((std::bit_width(size_ - 1) + 1) / 2)),
      keys_(keys) {
  SLUICE_ASSERT(size > 0, "a permutation needs at least one element, found {}", size);
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = scramble(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::scramble(std::uint64_t value) const {
  constexpr std::uint64_t kRounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (keys_.bits(right * kRounds + round) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace sluice
