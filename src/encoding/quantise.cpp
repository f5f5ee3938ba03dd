#include "encoding/quantise.hpp"

#include "base/error.hpp"
#include "encoding/dequantise.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace sluice {
namespace {

constexpr float kLargestFloat8 = 448, kLargestInt4 = 7.5F;

/// The nearest code of float8_e4m3fn. Without branches, so that compilers make vectors of loops over it.
std::uint32_t float8_code(float value) {
  constexpr float kUnits = 0x1p14F;  // float32 numbers from it on lie 2^-9 apart, as subnormal codes do
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 24 & 0x80U;
  const float magnitude = std::min(std::fabs(value), kLargestFloat8);
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t normal = ((bits + 0x7ffffU + (bits >> 20 & 1U)) >> 20) - (120U << 3);
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(magnitude + kUnits) - std::bit_cast<std::uint32_t>(kUnits);
  return sign | (magnitude < 0x1p-6F ? small : normal);
}

std::uint32_t int4_code(float value) {
  return static_cast<std::uint32_t>(std::clamp(std::nearbyint(value), -8.0F, 7.0F) + 8);
}

/// Of float4_e2m1: a code ends between its number and the next one.
std::uint32_t float4_code(float value) {
  constexpr std::array<float, 7> kEnds{0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5};
  const float magnitude = std::fabs(value);
  std::uint32_t code = 0;
  for (const float end : kEnds) code += magnitude > end || (magnitude == end && code % 2 == 1) ? 1U : 0U;
  return code | (std::signbit(value) ? 8U : 0U);
}

void put_half(std::uint32_t code, std::int64_t element, std::byte* out) {
  std::byte& both = out[element / 2];
  both = element % 2 == 0 ? static_cast<std::byte>(code) : both | static_cast<std::byte>(code << 4);
}

/// A block's scale as it is stored, and what its weights are multiplied with and then divided by before they
/// are rounded to codes.
struct BlockScale {
  std::array<std::byte, 4> stored{};
  float factor = 1;
  float divisor = 1;
};

bool is_exponent(DType scale_type) { return scale_type == DType::kUInt8 || scale_type == DType::kFloat8E8M0; }

/// The least power of two that is not below a scale; of MXFP4 that of 4 or more times less than `largest`.
int exponent_of(Codes codes, float largest) {
  if (codes == Codes::kFloat4E2M1) return std::ilogb(largest) - 2;
  int exponent = 0;
  const float fraction = std::frexp(1 / (kLargestFloat8 / largest), &exponent);
  return fraction == 0.5F ? exponent - 1 : exponent;
}

BlockScale scale_of(const Encoding& encoding, std::int64_t magnitude) {
  const auto largest = std::bit_cast<float>(static_cast<std::uint32_t>(magnitude));
  // No scale is so small: the numbers of such a block become 0.
  const bool is_zero = largest <= kLargestFloat8 / std::numeric_limits<float>::max();
  BlockScale out;
  if (is_exponent(encoding.scale_type)) {
    const int exponent = is_zero ? 0 : std::max(exponent_of(encoding.codes, largest), -126);
    out.stored.front() = static_cast<std::byte>(exponent + 127);
    out.factor = std::ldexp(1.0F, -exponent);
    return out;
  }
  const bool is_float8 = encoding.codes == Codes::kFloat8E4M3;
  const float factor = is_zero ? 1 : (is_float8 ? kLargestFloat8 : kLargestInt4) / largest;
  const float scale = is_zero ? 1 : (is_float8 ? 1 / factor : largest / kLargestInt4);
  convert_elements(&scale, DType::kFloat32, out.stored.data(), encoding.scale_type, 1);
  if (is_float8 && encoding.scale_type == DType::kFloat32) {
    out.factor = factor;
    return out;
  }
  read_scales(encoding.scale_type, out.stored.data(), 1, &out.divisor);
  if (out.divisor == 0 || is_zero) out = {out.stored, 0, 1};
  return out;
}

/// Calls `visit` with consecutive elements that lie in one row and one block, and the number of its scale.
template <class Visit>
void for_each_part(const Encoding& encoding, Range elements, Visit visit) {
  for (std::int64_t row = elements.begin; row < elements.end;) {
    const std::int64_t end = std::min(elements.end, (row / encoding.columns + 1) * encoding.columns);
    std::int64_t scale = encoding.scales_of({row, end}).begin;
    for (std::int64_t begin = row; begin < end; ++scale) {
      const std::int64_t column = begin % encoding.columns;
      const std::int64_t left = encoding.block_columns - column % encoding.block_columns;
      const Range part{begin, std::min(end, begin + left)};
      visit(part, scale);
      begin = part.end;
    }
    row = end;
  }
}

void put_codes(const Encoding& encoding, Range elements, const float* values, const BlockScale& scale,
               std::int64_t first, std::byte* codes) {
  const std::int64_t count = elements.count(), at = elements.begin - first;
  if (encoding.codes == Codes::kFloat8E4M3) {
    for (std::int64_t i = 0; i < count; ++i)
      codes[at + i] = static_cast<std::byte>(float8_code(values[i] * scale.factor / scale.divisor));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = values[i] * scale.factor / scale.divisor;
    put_half(encoding.codes == Codes::kInt4 ? int4_code(value) : float4_code(value), at + i, codes);
  }
}

}  // namespace

void raise_magnitudes(const Encoding& encoding, Range elements, const float* values, std::int64_t* largest) {
  for_each_part(encoding, elements, [&](Range part, std::int64_t scale) {
    const float* const begin = values + (part.begin - elements.begin);
    std::int32_t most = 0;
    for (std::int64_t i = 0; i < part.count(); ++i)
      most = std::max(most, std::bit_cast<std::int32_t>(std::fabs(begin[i])));
    largest[scale] = std::max<std::int64_t>(largest[scale], most);
  });
}

bool is_finite_magnitude(std::int64_t largest) {
  return largest < std::bit_cast<std::int32_t>(std::numeric_limits<float>::infinity());
}

void write_scales(const Encoding& encoding, std::span<const std::int64_t> largest, std::byte* scales) {
  const std::int64_t size = size_of(encoding.scale_type);
  for (const std::int64_t magnitude : largest) {
    const BlockScale scale = scale_of(encoding, magnitude);
    std::copy_n(scale.stored.data(), size, scales);
    scales += size;
  }
}

void quantise(const Encoding& encoding, Range elements, const float* values, const std::int64_t* largest,
              std::byte* codes) {
  for_each_part(encoding, elements, [&](Range part, std::int64_t scale) {
    put_codes(encoding, part, values + (part.begin - elements.begin), scale_of(encoding, largest[scale]),
              elements.begin, codes);
  });
}

void quantise_rows(const Encoding& encoding, std::int64_t count, const float* values, std::byte* codes,
                   std::byte* scales) {
  const Range elements{0, count * encoding.columns};
  std::vector<std::int64_t> largest(static_cast<std::size_t>(encoding.scales_of(elements).count()));
  raise_magnitudes(encoding, elements, values, largest.data());
  write_scales(encoding, largest, scales);
  quantise(encoding, elements, values, largest.data(), codes);
}

}  // namespace sluice
