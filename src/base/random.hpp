// Counter-based random numbers: element i of a stream is a function of (seed, stream, i) alone, so any rank
// can draw any part of any tensor, and every rank count draws the same values.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

// Arithmetic of the streams, for loops and for kernels of a device.

/// Output function of SplitMix64: mixes the 64 bits of `z`.
constexpr std::uint64_t mixed_bits(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Element `index` of the stream of a key (SplitMix64 over a keyed counter; Steele, Lea, Flood 2014).
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t index) {
  return mixed_bits(key + 0x9e3779b97f4a7c15ULL * (index + 1));
}

/// A number in (0, 1), both ends excluded, so that its logarithm is finite.
constexpr float open_unit_number(std::uint64_t bits) {
  return (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F;
}

/// An independent stream of random numbers, named by a seed and, for example, a tensor's name.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  /// 64 well mixed bits for index i: random_bits() of this stream's key.
  [[nodiscard]] std::uint64_t bits(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t key() const { return key_; }

  /// Writes elements [begin, begin + count) of a stream of numbers uniform in (0, 1).
  void uniform(std::int64_t begin, std::int64_t count, float* out) const;

  /// Writes elements [begin, begin + count) of a stream of normal numbers with mean 0 (Box-Muller, one pair
  /// per counter); many elements are drawn on all cores.
  void normal(std::int64_t begin, std::int64_t count, float standard_deviation, float* out) const;

 private:
  std::uint64_t key_;
};

}  // namespace sluice
