// Numbers of an optimizer's state as float32 and back, a few at a time, so that what lies between stays in
// the first level of cache. One loop for each format; formulas see float32 alone.
//
//   master, kFloat32     a float32 x beside w, x rounded to the nearest bfloat16 (ties to even): the
//                        difference of their bit patterns x - (w << 16), which lies in -0x8000 .. 0x8000. The
//                        last, a tie whose upper half is even, one value in 131,072, does not fit: it is kept
//                        as 0x7FFF, one unit towards zero. Everything else that is finite and does not round
//                        to infinity is exact.
//   master, k24Bit       that difference for x with its low 8 bits rounded away stochastically, in units of
//                        2^8; ties go away from zero, so that -0x80 .. 0x7F holds all.
//   first moment, int8   y = 2x / (1 + |x|), x = m / max |m| of the block, in 127 steps each side of 0
//                        (softsign, FlashOptim, arXiv 2602.23349: finer where most of the moments are); that
//                        is 2 m / (max + |m|), and back max y / (2 - |y|).
//   second moment, int8  sqrt(v) / max sqrt(v) of the block in 255 steps; 0 for an exact zero alone, since
//                        the update divides by it.
#pragma once

#include "base/optimizer_mode.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sluice::ops::cpu::optimizer {

/// Number of elements that are converted at a time.
inline constexpr std::int64_t kChunk = 1024;
static_assert(kChunk % kStateBlock == 0);

using Floats = std::array<float, kChunk>;
using Draws = std::array<std::uint32_t, kChunk>;

/// Computes 32 random bits for each of the elements [begin, begin + n) of the matrix that `key` names: two
/// rounds of a 32-bit finalizer (Wellons' lowbias32) over the element's index, with the key added before each
/// round. Weights use the low half, second moments the high half.
void draw(std::uint64_t key, std::int64_t begin, std::int64_t n, std::uint32_t* out);

// In the functions below, n is any number; `to` and `from` do not overlap.

/// Reads n bfloat16 numbers as float32.
void read_bfloat16(const std::uint16_t* from, std::int64_t n, float* to);
void write_bfloat16(const float* from, std::int64_t n, std::uint16_t* to);
/// Writes bfloat16 weights, rounded stochastically with the low half of each draw.
void write_weights_stochastically(const float* from, const std::uint32_t* draws, std::int64_t n,
                                  std::uint16_t* to);
/// Writes bfloat16 second moments, which are not negative, rounded stochastically with the high half of each
/// draw.
void write_moment_stochastically(const float* from, const std::uint32_t* draws, std::int64_t n,
                                 std::uint16_t* to);

/// Reads n weights as float32: the bfloat16 and 16 more bits of each.
void read_master32(const std::uint16_t* weights, const std::int16_t* rest, std::int64_t n, float* to);
void write_master32(const float* from, std::int64_t n, std::uint16_t* weights, std::int16_t* rest);
void read_master24(const std::uint16_t* weights, const std::int8_t* rest, std::int64_t n, float* to);
/// Writes 24-bit master weights, rounded stochastically with the low 8 bits of each draw.
void write_master24(const float* from, const std::uint32_t* draws, std::int64_t n, std::uint16_t* weights,
                    std::int8_t* rest);

/// Reads codes of first moments. There is one scale for each kStateBlock elements; the last block may be
/// shorter.
void read_first_codes(const std::int8_t* codes, const float* scales, std::int64_t n, float* to);
void write_first_codes(const float* from, std::int64_t n, std::int8_t* codes, float* scales);
/// Reads codes of second moments, which store their square roots.
void read_root_codes(const std::uint8_t* codes, const float* scales, std::int64_t n, float* to);
void write_root_codes(const float* from, std::int64_t n, std::uint8_t* codes, float* scales);

}  // namespace sluice::ops::cpu::optimizer
