#include "encoding/quantise.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace sluice {
namespace {

/// Of float8_e4m3fn.
std::uint32_t float8_code(float value) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 24 & 0x80U;
  const float magnitude = std::min(std::fabs(value), 448.0F);
  if (magnitude < 0x1p-6F) return sign | static_cast<std::uint32_t>(std::nearbyint(magnitude * 0x1p9F));
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  return sign | (((bits + 0x7ffffU + (bits >> 20 & 1U)) >> 20) - (120U << 3));
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

/// Puts a scale there, and returns it as it is read again.
float put_scale(const Encoding& encoding, float largest, std::byte* out) {
  if (encoding.codes == Codes::kFloat4E2M1) {
    const int exponent = largest > 0 ? std::max(std::ilogb(largest) - 2, -127) : 0;
    *out = static_cast<std::byte>(exponent + 127);
    return std::ldexp(1.0F, exponent);
  }
  const float most = encoding.codes == Codes::kFloat8E4M3 ? 448.0F : 7.5F;
  const float scale = largest > 0 ? largest / most : 1;
  convert_elements(&scale, DType::kFloat32, out, encoding.scale_type, 1);
  return encoding.scale_type == DType::kFloat32 ? scale : bfloat16_value(bfloat16_bits(scale));
}

void put_code(Codes codes, std::int64_t element, float value, std::byte* out) {
  if (codes == Codes::kFloat8E4M3) {
    out[element] = static_cast<std::byte>(float8_code(value));
    return;
  }
  const std::uint32_t code = codes == Codes::kInt4 ? int4_code(value) : float4_code(value);
  std::byte& both = out[element / 2];
  both = element % 2 == 0 ? static_cast<std::byte>(code) : both | static_cast<std::byte>(code << 4);
}

}  // namespace

void quantise_rows(const Encoding& encoding, std::int64_t count, const float* values, std::byte* codes,
                   std::byte* scales) {
  SLUICE_ASSERT(encoding.codes == Codes::kFloat4E2M1
                    ? encoding.scale_type == DType::kUInt8
                    : encoding.scale_type == DType::kFloat32 || encoding.scale_type == DType::kBFloat16,
                "scales of type {} are not written", name_of(encoding.scale_type));
  const std::int64_t columns = encoding.columns, size = size_of(encoding.scale_type);
  for (std::int64_t row = 0; row < count; row += encoding.block_rows)
    for (std::int64_t column = 0; column < columns; column += encoding.block_columns, scales += size) {
      const std::int64_t end_row = std::min(row + encoding.block_rows, count);
      const std::int64_t end_column = std::min(column + encoding.block_columns, columns);
      float largest = 0;
      for (std::int64_t i = row; i < end_row; ++i)
        for (std::int64_t j = column; j < end_column; ++j)
          largest = std::max(largest, std::fabs(values[i * columns + j]));
      const float scale = put_scale(encoding, largest, scales);
      for (std::int64_t i = row; i < end_row; ++i)
        for (std::int64_t j = column; j < end_column; ++j)
          put_code(encoding.codes, i * columns + j, values[i * columns + j] / scale, codes);
    }
}

}  // namespace sluice
