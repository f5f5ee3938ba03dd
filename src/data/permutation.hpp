// Seeded permutation of numbers, without a table.
#pragma once

#include "base/random.hpp"

#include <cstdint>

namespace sluice {

/// A permutation of [0, size): a Feistel network permutes the next power of four, and values that fall
/// outside are sent through again until they fall inside ("cycle walking", at most four times on average).
class Permutation {
 public:
  /// Permutation of `size` > 0 numbers, determined by the size and the stream.
  Permutation(std::int64_t size, const RandomStream& keys);

  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t scramble(std::uint64_t value) const;

  std::uint64_t size_;
  int half_bits_;
  RandomStream keys_;
};

}  // namespace sluice
