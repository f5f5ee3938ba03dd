// Dequantisation: codes and scales to numbers.
#pragma once

#include "encoding/coded_rows.hpp"

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Instruction set of a loop. All give the same bits.
enum class VectorLevel : std::uint8_t { kPlain, kAvx2, kAvx512 };
/// The highest instruction set that this processor has.
[[nodiscard]] VectorLevel best_vector_level();

/// Dequantises elements [begin, end) of a tensor to `to`: bfloat16, or float32 of the same value. `codes`
/// points at the code of the first element, `scales` at the first scale of encoding.scales_of(elements); both
/// may have any alignment, `target` is aligned to its element. 4-bit codes begin at an even element. A NaN in
/// a code or scale makes NaN. The level must not be above best_vector_level().
void dequantise(const Encoding& encoding, Range elements, const std::byte* codes, const std::byte* scales,
                DType to, std::byte* target, VectorLevel level = best_vector_level());

/// Dequantises columns of rows [of.begin, of.end) of some: the first row to `target`, the next ones `stride`
/// elements apart. 4-bit codes begin at an even column, and their rows at whole bytes.
void dequantise_block(const CodedRows& rows, Range of, Range columns, DType to, std::byte* target,
                      std::int64_t stride);

/// Converts scales [0, count) to float32, exactly, and applies the tensor's own scale.
void read_scales(const Encoding& encoding, const std::byte* scales, std::int64_t count, float* out);

}  // namespace sluice
