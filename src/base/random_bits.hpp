// The arithmetic of a counter-based stream of random numbers, for loops and for kernels of a device.
#pragma once

#include <cstdint>

namespace sluice {

/// SplitMix64's output function: 64 well mixed bits of 64.
constexpr std::uint64_t mixed_bits(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Element `index` of the stream of a key (SplitMix64 over a keyed counter; Steele, Lea, Flood 2014).
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return mixed_bits(key + 0x9e3779b97f4a7c15ULL * (index + 1));
}

/// In (0, 1), both excluded: logarithms are finite.
constexpr float unit_number(std::uint64_t bits) { return (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F; }

}  // namespace sluice
