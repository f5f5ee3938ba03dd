// Counter-based random numbers: element i of a stream is a function of (seed, stream, i) alone, so any rank
// can draw any part of any tensor, and every rank count draws the same values.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

/// Names an independent stream; made from a seed and, say, a tensor's name.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  /// 64 well mixed bits for index i: random_bits() of this stream's key (base/random_bits.hpp).
  [[nodiscard]] std::uint64_t bits(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t key() const { return key_; }

  /// Writes elements [begin, begin + count) of a stream of numbers uniform in (0, 1).
  void uniform(std::int64_t begin, std::int64_t count, float* out) const;

  /// Writes elements [begin, begin + count) of a stream of normal numbers with mean 0 (Box-Muller, one pair
  /// per counter).
  void normal(std::int64_t begin, std::int64_t count, float standard_deviation, float* out) const;

 private:
  std::uint64_t key_;
};

}  // namespace sluice
