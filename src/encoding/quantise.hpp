// Numbers into codes and scales: the nearest ones that a form of quantised weights has.
#pragma once

#include "encoding/encoding.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// `count` rows of one of the matrices of a tensor, from a border of its blocks to another one or to its
/// end. `values` are their elements, `codes` and `scales` where their own begin. A block's scale makes its
/// largest magnitude the largest number that codes have: 448 of float8_e4m3fn, 7.5 of int4; a power of two
/// for mxfp4, whose largest number is 6. Codes are the nearest, the even one of two that are as near. All
/// values are finite. Scales are float32 or bfloat16, those of mxfp4 uint8.
void quantise_rows(const Encoding& encoding, std::int64_t count, const float* values, std::byte* codes,
                   std::byte* scales);

}  // namespace sluice
