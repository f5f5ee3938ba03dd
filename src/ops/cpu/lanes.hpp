// Sixteen floats as one value, for sums that must stay in registers. Internal to src/ops.
#pragma once

#include "ops/cpu/kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace sluice::ops::cpu {

inline constexpr std::int64_t kLanes = 16;
using Lanes __attribute__((vector_size(64))) = float;
using LaneWords __attribute__((vector_size(64))) = std::uint32_t;

// Vectors are passed by reference: the calling convention of a vector by value depends on the enabled
// instruction sets.

/// Reads kLanes numbers, from `from` on.
SLUICE_ELEMENT void read_lanes(const float* from, Lanes& lanes) { std::memcpy(&lanes, from, sizeof lanes); }
SLUICE_ELEMENT void read_lanes(const at::BFloat16* from, Lanes& lanes) {
  using Halves __attribute__((vector_size(32))) = std::uint16_t;
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const LaneWords words = __builtin_convertvector(halves, LaneWords) << 16;
  std::memcpy(&lanes, &words, sizeof words);
}

/// Stage of sums_of(), named by the distance of the lanes that it adds.
enum class Stage : std::uint8_t { kWithinPairs, kOfPairs, kOfQuarters, kOfHalves };

/// Adds pairs of lanes in each of the vectors a and b, which halves their number; the result holds the sums
/// of a, then those of b, alternating or in groups by stage.
template <Stage kStage>
SLUICE_ELEMENT void fold(const Lanes& a, const Lanes& b, Lanes& out) {
  if constexpr (kStage == Stage::kWithinPairs)
    out = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
          __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  else if constexpr (kStage == Stage::kOfPairs)
    out = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
          __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  else
    out = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
          __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

/// Folds vectors 2 i and 2 i + 1 into vectors[i]; an odd last vector is folded with itself.
template <Stage kStage, std::int64_t kCount>
SLUICE_ELEMENT void fold_all(Lanes* vectors) {
  for (std::int64_t i = 0; 2 * i < kCount; ++i)
    fold<kStage>(vectors[2 * i], vectors[kCount == 1 ? 0 : 2 * i + 1], vectors[i]);
}

/// Returns the sum of the lanes of each of kCount vectors (a power of two), always in the same order; the
/// vectors are overwritten.
template <std::int64_t kCount>
SLUICE_ELEMENT void sums_of(Lanes* vectors, float* out) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4 || kCount == 8 || kCount == 16);
  fold_all<Stage::kWithinPairs, kCount>(vectors);
  fold_all<Stage::kOfPairs, std::max<std::int64_t>(1, kCount / 2)>(vectors);
  fold_all<Stage::kOfQuarters, std::max<std::int64_t>(1, kCount / 4)>(vectors);
  fold_all<Stage::kOfHalves, std::max<std::int64_t>(1, kCount / 8)>(vectors);
  std::memcpy(out, vectors, sizeof(float) * kCount);
}

}  // namespace sluice::ops::cpu
