// Numbers into codes and scales: the nearest ones that a form of quantised weights has.
#pragma once

#include "encoding/encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

// A block's scale follows from its largest magnitude, which is told as the bits of that float32: they order
// magnitudes, with NaN above infinity above numbers. So parts of a block may be looked at one after the
// other, or by several ranks, and the largest of all is taken.
//
// FP8 codes are float8_e4m3fn(w * s) with s = 448 / largest, and 1 / s is stored; where scales are not
// float32, w / (the scale as stored). A scale that is a power of two is the next one above. INT4 scales are
// largest / 7.5; those of MXFP4, whose largest number is 6, the power of two that brings the largest magnitude
// below 8; those of NVFP4 are float8_e4m3fn(largest / 6, before the tensor's own scale is taken). Codes are
// the nearest, the even one of two that are as near.
//
// INT8 codes are bitsandbytes' (int8_vectorwise_quant): w * (127 * (1 / largest)), rounded to the nearest,
// the even one of two; the scale is its absmax / 127. NF4 codes and scales are those of its quantize_4bit:
// the number nearest to w * (1 / largest), the lower one of two; the scale is the largest magnitude itself. A
// block with NaN or an infinity has a scale of NaN in both, and others' blocks must not have any.

/// Raises, of the magnitudes of a tensor's blocks, those that elements [begin, end) of the tensor lie in.
/// `values` are these elements; `largest` has as many numbers as the tensor has scales.
void raise_magnitudes(const Encoding& encoding, Range elements, const float* values, std::int64_t* largest);

/// Whether a magnitude is that of a number: neither NaN nor infinity.
[[nodiscard]] bool is_finite_magnitude(std::int64_t largest);

/// Writes the scales of blocks with these largest magnitudes, which are finite.
void write_scales(const Encoding& encoding, std::span<const std::int64_t> largest, std::byte* scales);

/// Writes the codes of elements [begin, end) of a tensor, as raise_magnitudes() takes them, of which 4-bit
/// ones begin at an even element. `largest` holds the finite magnitudes of all blocks.
void quantise(const Encoding& encoding, Range elements, const float* values, const std::int64_t* largest,
              std::byte* codes);

/// Codes and scales of `count` finite rows of one of the matrices of a tensor, from a border of its blocks to
/// another one or to its end. `values` are their elements, `codes` and `scales` where their own begin.
void quantise_rows(const Encoding& encoding, std::int64_t count, const float* values, std::byte* codes,
                   std::byte* scales);

}  // namespace sluice
