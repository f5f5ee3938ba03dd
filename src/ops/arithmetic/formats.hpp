// Conversion between float32 and the formats of an optimizer's state, as ops/cpu/formats.hpp
// describes them. The functions are compiled into their callers: called one after the other over a few
// elements, they let a processor begin one conversion while divisions and roots of the last are in flight.
#pragma once

#include "base/optimizer_mode.hpp"
#include "base/random.hpp"
#include "ops/arithmetic/element.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace sluice::ops::arithmetic {

SLUICE_ELEMENT std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
SLUICE_ELEMENT float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Returns the magnitude of x as an integer in the same order, from its bits: the maximum of such integers
/// vectorises.
SLUICE_ELEMENT std::int32_t magnitude(float x) { return static_cast<std::int32_t>(bits_of(x) & 0x7fffffffU); }

/// Returns the nearest integer of x, |x| < 2^22, without a call of a rounding function.
SLUICE_ELEMENT std::int32_t nearest(float x) {
  constexpr float kShift = 12582912.0F;  // Adding 1.5 * 2^23 puts the integer part into the low bits.
  return std::bit_cast<std::int32_t>(x + kShift) - std::bit_cast<std::int32_t>(kShift);
}

inline constexpr float kFirstSteps = 127, kSecondSteps = 255;

SLUICE_ELEMENT float inverse(float scale) { return scale > 0 ? 1 / scale : 0; }

/// Calls block(first element, count, index of the scale); inlined into its caller, for the caller's
/// instruction set.
template <class Block>
SLUICE_ELEMENT void for_each_block(std::int64_t n, Block block) {
  const std::int64_t whole = n / kStateBlock;
  for (std::int64_t b = 0; b < whole; ++b) block(b * kStateBlock, kStateBlock, b);
  if (n % kStateBlock != 0) block(whole * kStateBlock, n % kStateBlock, whole);
}

SLUICE_ELEMENT float largest_magnitude(const float* x, std::int64_t n) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, magnitude(x[i]));
  return float_of(static_cast<std::uint32_t>(largest));
}

/// Draws 32 random bits for each of n elements from `begin` on, none beyond element 2^32.
SLUICE_ELEMENT void draw_within_period(std::uint64_t keys, std::uint32_t begin, std::int64_t n,
                                       std::uint32_t* out) {
  const std::uint32_t first = begin + static_cast<std::uint32_t>(keys);
  const auto second = static_cast<std::uint32_t>(keys >> 32);
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t x = first + static_cast<std::uint32_t>(i);
    x = (x ^ (x >> 16)) * 0x7feb352dU;
    x = (x ^ (x >> 15) ^ second) * 0x846ca68bU;
    out[i] = x ^ (x >> 16);
  }
}

SLUICE_ELEMENT void draw(std::uint64_t key, std::int64_t begin, std::int64_t n, std::uint32_t* out) {
  constexpr std::int64_t kPeriod = std::int64_t{1} << 32;
  for (const std::int64_t end = begin + n; begin < end;) {
    const std::int64_t count = std::min(end - begin, kPeriod - begin % kPeriod);
    const std::uint64_t keys =
        mixed_bits(key + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(begin / kPeriod));
    draw_within_period(keys, static_cast<std::uint32_t>(begin % kPeriod), count, out);
    begin += count;
    out += count;
  }
}

/// Returns the value of a bfloat16, given by its bits.
SLUICE_ELEMENT float float_of_bfloat16(std::uint16_t bits) { return float_of(std::uint32_t{bits} << 16); }

/// Returns the bits of a weight as bfloat16, rounded stochastically with the low half of a draw.
SLUICE_ELEMENT std::uint16_t rounded_weight(float weight, std::uint32_t draw) {
  return static_cast<std::uint16_t>((bits_of(weight) + (draw & 0xffffU)) >> 16);
}

SLUICE_ELEMENT void read_bfloat16(const std::uint16_t* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = float_of_bfloat16(from[i]);
}

SLUICE_ELEMENT void write_bfloat16(const float* from, std::int64_t n, std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = bits_of(from[i]);
    to[i] = static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
  }
}

SLUICE_ELEMENT void write_weights_stochastically(const float* from, const std::uint32_t* draws,
                                                 std::int64_t n, std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = rounded_weight(from[i], draws[i]);
}

SLUICE_ELEMENT void write_moment_stochastically(const float* from, const std::uint32_t* draws, std::int64_t n,
                                                std::uint16_t* to) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = static_cast<std::uint16_t>((bits_of(from[i]) + (draws[i] >> 16)) >> 16);
}

SLUICE_ELEMENT void read_master32(const std::uint16_t* weights, const std::int16_t* rest, std::int64_t n,
                                  float* to) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = float_of((std::uint32_t{weights[i]} << 16) + static_cast<std::uint32_t>(std::int32_t{rest[i]}));
}

SLUICE_ELEMENT void write_master32(const float* from, std::int64_t n, std::uint16_t* weights,
                                   std::int16_t* rest) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = bits_of(from[i]);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const auto difference = static_cast<std::int32_t>(bits - (rounded << 16));
    weights[i] = static_cast<std::uint16_t>(rounded);
    rest[i] = static_cast<std::int16_t>(std::min(difference, 0x7fff));
  }
}

SLUICE_ELEMENT void read_master24(const std::uint16_t* weights, const std::int8_t* rest, std::int64_t n,
                                  float* to) {
  for (std::int64_t i = 0; i < n; ++i)
    to[i] = float_of((std::uint32_t{weights[i]} << 16) +
                     (static_cast<std::uint32_t>(std::int32_t{rest[i]}) << 8));
}

SLUICE_ELEMENT void write_master24(const float* from, const std::uint32_t* draws, std::int64_t n,
                                   std::uint16_t* weights, std::int8_t* rest) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t kept = (bits_of(from[i]) + (draws[i] & 0xffU)) >> 8;
    const std::uint32_t rounded = (kept + 0x80U) >> 8;
    weights[i] = static_cast<std::uint16_t>(rounded);
    rest[i] = static_cast<std::int8_t>(kept - (rounded << 8));
  }
}

SLUICE_ELEMENT void read_first_codes(const std::int8_t* codes, const float* scales, std::int64_t n,
                                     float* to) {
  for_each_block(
      n, [&](std::int64_t first, std::int64_t count, std::int64_t block) __attribute__((always_inline)) {
        const float scale = scales[block];
        for (std::int64_t i = first; i < first + count; ++i) {
          const auto code = static_cast<float>(codes[i]);
          to[i] = scale * code / (2 * kFirstSteps - std::abs(code));
        }
      });
}

/// Finds the scale of each block: the largest magnitude of its elements.
SLUICE_ELEMENT void find_scales(const float* from, std::int64_t n, float* scales) {
  for_each_block(
      n, [&](std::int64_t first, std::int64_t count, std::int64_t block)
             __attribute__((always_inline)) { scales[block] = largest_magnitude(from + first, count); });
}

/// Writes codes with the scales that find_scales() found; the other write functions do the same.
SLUICE_ELEMENT void write_first_codes(const float* from, std::int64_t n, std::int8_t* codes,
                                      const float* scales) {
  for_each_block(
      n, [&](std::int64_t first, std::int64_t count, std::int64_t block) __attribute__((always_inline)) {
        const float scale = scales[block];
        // A lower bound of the scale avoids 0 / 0 in a block of zeros.
        const float least = std::max(scale, std::numeric_limits<float>::min());
        for (std::int64_t i = first; i < first + count; ++i)
          codes[i] =
              static_cast<std::int8_t>(nearest(2 * kFirstSteps * from[i] / (least + std::abs(from[i]))));
      });
}

SLUICE_ELEMENT void read_root_codes(const std::uint8_t* codes, const float* scales, std::int64_t n,
                                    float* to) {
  for_each_block(
      n, [&](std::int64_t first, std::int64_t count, std::int64_t block) __attribute__((always_inline)) {
        const float step = scales[block] * (1 / kSecondSteps);
        for (std::int64_t i = first; i < first + count; ++i) to[i] = static_cast<float>(codes[i]) * step;
      });
}

SLUICE_ELEMENT void write_root_codes(const float* from, std::int64_t n, std::uint8_t* codes,
                                     const float* scales) {
  for_each_block(
      n, [&](std::int64_t first, std::int64_t count, std::int64_t block) __attribute__((always_inline)) {
        const float scale = scales[block];
        const float rest = kSecondSteps * inverse(scale);
        for (std::int64_t i = first; i < first + count; ++i) {
          const std::int32_t code = nearest(from[i] * rest);
          const std::int32_t least = from[i] > 0 ? 1 : 0;
          codes[i] = static_cast<std::uint8_t>(std::max(code, least));
        }
      });
}

}  // namespace sluice::ops::arithmetic
