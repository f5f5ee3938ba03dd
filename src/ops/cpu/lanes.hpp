// Sixteen floats as one value, for sums that must stay in registers. Internal to src/ops.
#pragma once

#include "ops/cpu/kernel.hpp"

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

}  // namespace sluice::ops::cpu
