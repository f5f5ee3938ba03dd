// Codes and scales into numbers.
#pragma once

#include "encoding/encoding.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Instructions that a loop is written in. All give the same bits.
enum class VectorLevel : std::uint8_t { kPlain, kAvx2, kAvx512 };
/// The best level of this processor.
[[nodiscard]] VectorLevel best_vector_level();

/// Writes elements [begin, end) of a tensor as `to`: bfloat16, or float32 of the same value. `codes` is where
/// the code of the first of them lies, `scales` the first scale of encoding.scales_of(elements); both may
/// have any alignment, `target` is aligned to its element. 4-bit codes begin at an even element. A NaN as
/// code or as scale makes NaN. A level above best_vector_level() must not be asked for.
void dequantise(const Encoding& encoding, Range elements, const std::byte* codes, const std::byte* scales,
                DType to, std::byte* target, VectorLevel level = best_vector_level());

/// Scales [0, count) as float32: exactly, and then under the tensor's own scale.
void read_scales(const Encoding& encoding, const std::byte* scales, std::int64_t count, float* out);

}  // namespace sluice
