// Quantisation: numbers to the nearest codes and scales that an encoding has.
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

/// Raises the largest magnitudes of a tensor's blocks by elements [begin, end), whose numbers are `values`.
/// `largest` has one magnitude per scale of the tensor.
void raise_magnitudes(const Encoding& encoding, Range elements, const float* values, std::int64_t* largest);

/// Whether a magnitude belongs to a finite number: neither NaN nor infinity.
[[nodiscard]] bool is_finite_magnitude(std::int64_t largest);

/// Writes the scale of each block from its largest magnitude in `largest`, which must be finite.
void write_scales(const Encoding& encoding, std::span<const std::int64_t> largest, std::byte* scales);

/// Writes the codes of elements [begin, end) of a tensor, whose numbers are `values`; 4-bit codes begin at an
/// even element. `largest` holds the magnitudes of all blocks, which must be finite.
void quantise(const Encoding& encoding, Range elements, const float* values, const std::int64_t* largest,
              std::byte* codes);

/// Quantises `count` finite rows of one matrix of a tensor, from one border of its blocks to another, or to
/// the matrix's end. `values` points at the rows' elements, `codes` and `scales` at the place of theirs.
void quantise_rows(const Encoding& encoding, std::int64_t count, const float* values, std::byte* codes,
                   std::byte* scales);

}  // namespace sluice
