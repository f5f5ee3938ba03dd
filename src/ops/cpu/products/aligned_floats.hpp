// float32 numbers at whole cache lines. Needs no LibTorch. Internal to src/ops.
#pragma once

#include "base/round.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::ops::cpu {

/// Numbers that begin at a cache line, zero at first.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::int64_t count = 0) : lines_(lines_of(count)) {}

  [[nodiscard]] float* data() { return lines_.data()->values; }
  [[nodiscard]] const float* data() const { return lines_.data()->values; }

  /// Makes room for so many numbers, and returns the first one; the others may be of earlier use.
  float* at_least(std::int64_t count) {
    if (lines_.size() < lines_of(count)) lines_.resize(lines_of(count));
    return data();
  }

 private:
  struct alignas(64) Line {
    float values[16] = {};
  };
  static std::size_t lines_of(std::int64_t count) {
    return static_cast<std::size_t>(divide_up<std::int64_t>(count, std::size(Line{}.values)));
  }
  std::vector<Line> lines_;
};

}  // namespace sluice::ops::cpu
