#include "encoding/quantise.hpp"

#include "base/error.hpp"
#include "encoding/dequantise.hpp"
#include "encoding/row_kernel.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace sluice {
namespace {

constexpr float kLargestFloat8 = 448, kLargestInt4 = 7.5F, kLargestInt8 = 127, kLargestFloat4 = 6;

// The types below give the nearest code of a number without branches, so that compilers vectorise loops over
// them.

/// Floating-point codes: a sign, `ExponentBits` and `MantissaBits`. `Largest` is the largest number that has
/// a code.
template <int ExponentBits, int MantissaBits, int Largest>
struct NearestFloat {
  static constexpr int kShift = 23 - MantissaBits;
  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  /// From this number on float32 values are as far apart as subnormal codes.
  static constexpr float kUnits = std::bit_cast<float>((127 + 24 - kBias - MantissaBits) << 23);
  static constexpr std::int32_t kLeastNormal = (128 - kBias) << 23;

  static std::int32_t code(float value) {
    const auto signed_bits = std::bit_cast<std::int32_t>(value);
    const std::int32_t bits =
        std::min(signed_bits & 0x7fffffff, std::bit_cast<std::int32_t>(static_cast<float>(Largest)));
    const std::int32_t half = (1 << (kShift - 1)) - 1 + (bits >> kShift & 1);
    const std::int32_t normal = ((bits + half) >> kShift) - ((127 - kBias) << MantissaBits);
    const std::int32_t small = std::bit_cast<std::int32_t>(std::bit_cast<float>(bits) + kUnits) -
                               std::bit_cast<std::int32_t>(kUnits);
    const std::int32_t is_small = -static_cast<std::int32_t>(bits < kLeastNormal);
    return (signed_bits < 0 ? 1 << (ExponentBits + MantissaBits) : 0) | (small & is_small) |
           (normal & ~is_small);
  }
};
using NearestFloat8 = NearestFloat<4, 3, 448>;
using NearestFloat4 = NearestFloat<2, 1, 6>;

/// INT4 codes: an integer from -8 to 7, plus 8. Values must have magnitudes below 2^22.
struct NearestInt4 {
  static std::int32_t code(float value) {
    constexpr float kUnits = 0x1.8p23F;  // float32 values near it are the integers
    const std::int32_t code =
        std::bit_cast<std::int32_t>(value + kUnits) - (std::bit_cast<std::int32_t>(kUnits) - 8);
    return std::clamp(code, 0, 15);
  }
};

/// INT8 codes: an integer from -127 to 127.
struct NearestInt8 {
  static std::int32_t code(float value) {
    constexpr float kUnits = 0x1.8p23F;  // float32 values near it are the integers
    return std::bit_cast<std::int32_t>(std::clamp(value, -kLargestInt8, kLargestInt8) + kUnits) & 0xff;
  }
};

/// NF4 codes: how many borders between neighbouring numbers lie below the value.
struct NearestNormalFloat4 {
  static std::int32_t code(float value) {
    constexpr auto& kNumbers = encoding::NormalFloat4Numbers::kNumbers;
    std::int32_t code = 0;
    for (std::size_t i = 0; i + 1 < kNumbers.size(); ++i)
      code += value > (kNumbers[i] + kNumbers[i + 1]) / 2 ? 1 : 0;
    return code;
  }
};

/// A block's scale as it is stored, and the factor and divisor that its weights get before they are rounded
/// to codes.
struct BlockScale {
  std::array<std::byte, 4> stored{};
  float factor = 1;
  float divisor = 1;
};

bool is_exponent(DType scale_type) { return scale_type == DType::kUInt8 || scale_type == DType::kFloat8E8M0; }

/// Exponent of the least power of two that is at least a scale; for MXFP4 that of `largest` divided by 4 or
/// more.
int exponent_of(Codes codes, float largest) {
  if (codes == Codes::kFloat4E2M1) return std::ilogb(largest) - 2;
  int exponent = 0;
  const float fraction = std::frexp(1 / (kLargestFloat8 / largest), &exponent);
  return fraction == 0.5F ? exponent - 1 : exponent;
}

/// Scale of INT8 and NF4; with a factor of 0 every code is the code of 0.
BlockScale linear_scale_of(Codes codes, float largest) {
  constexpr float kLeast = 1e-38F;  // bitsandbytes replaces smaller magnitudes by this one
  const bool is_int8 = codes == Codes::kInt8, is_finite = std::isfinite(largest);
  const float scale = is_int8 ? largest / kLargestInt8 : largest;
  const float stored = is_finite ? scale : std::numeric_limits<float>::quiet_NaN();
  const float factor = is_int8 ? kLargestInt8 * (1 / largest) : 1 / std::max(largest, kLeast);
  BlockScale out;
  std::memcpy(out.stored.data(), &stored, sizeof(stored));
  out.factor = is_finite && std::isfinite(factor) ? factor : 0;
  return out;
}

BlockScale scale_of(const Encoding& encoding, std::int64_t magnitude) {
  const auto largest = std::bit_cast<float>(static_cast<std::uint32_t>(magnitude));
  if (encoding.codes == Codes::kInt8 || encoding.codes == Codes::kNormalFloat4)
    return linear_scale_of(encoding.codes, largest);
  // No scale can be that small, so the numbers of such a block become 0.
  const bool is_zero = largest <= kLargestFloat8 / std::numeric_limits<float>::max();
  BlockScale out;
  if (is_exponent(encoding.scale_type)) {
    const int exponent = is_zero ? 0 : std::max(exponent_of(encoding.codes, largest), -126);
    out.stored.front() = static_cast<std::byte>(exponent + 127);
    out.factor = std::ldexp(1.0F, -exponent);
    return out;
  }
  if (encoding.scale_type == DType::kFloat8E4M3) {
    const TensorScale& of_tensor = encoding.tensor_scale;
    const float scale = largest / kLargestFloat4 * of_tensor.divisor / of_tensor.factor;
    out.stored.front() = static_cast<std::byte>(NearestFloat8::code(scale));
    read_scales(encoding, out.stored.data(), 1, &out.divisor);
    return out.divisor == 0 ? BlockScale{out.stored, 0, 1} : out;
  }
  const bool is_float8 = encoding.codes == Codes::kFloat8E4M3;
  const float factor = is_zero ? 1 : (is_float8 ? kLargestFloat8 : kLargestInt4) / largest;
  const float scale = is_zero ? 1 : (is_float8 ? 1 / factor : largest / kLargestInt4);
  convert_elements(&scale, DType::kFloat32, out.stored.data(), encoding.scale_type, 1);
  if (is_float8 && encoding.scale_type == DType::kFloat32) {
    out.factor = factor;
    return out;
  }
  read_scales(encoding, out.stored.data(), 1, &out.divisor);
  if (out.divisor == 0 || is_zero) out = {out.stored, 0, 1};
  return out;
}

/// Calls `visit` with runs of elements in one row and one block, and the number of the block's scale.
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

/// Writes each code to a byte of its own.
template <class Nearest>
void put_bytes(const float* values, BlockScale scale, std::int64_t count, std::byte* codes) {
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<std::byte>(Nearest::code(values[i] * scale.factor / scale.divisor));
}

/// Writes two codes per byte, the first one to the lower half. The first code of all is number `at`, counted
/// from `codes`.
template <class Nearest>
void put_halves(const float* values, BlockScale scale, std::int64_t count, std::int64_t at,
                std::byte* codes) {
  std::array<std::byte, 256> apart;
  codes += at / 2;
  if (at % 2 == 1) {
    put_bytes<Nearest>(values++, scale, 1, apart.data());
    *codes++ |= apart.front() << 4;
    --count;
  }
  while (count > 0) {
    const std::int64_t some = std::min(count, std::ssize(apart)), pairs = (some + 1) / 2;
    put_bytes<Nearest>(values, scale, some, apart.data());
    if (some % 2 == 1) apart[static_cast<std::size_t>(some)] = std::byte{0};
    for (std::int64_t i = 0; i < pairs; ++i) codes[i] = apart[2 * i] | apart[2 * i + 1] << 4;
    values += some;
    codes += pairs;
    count -= some;
  }
}

void put_codes(const Encoding& encoding, Range elements, const float* values, const BlockScale& scale,
               std::int64_t first, std::byte* codes) {
  const std::int64_t count = elements.count(), at = elements.begin - first;
  switch (encoding.codes) {
    case Codes::kFloat8E4M3:
      return put_bytes<NearestFloat8>(values, scale, count, codes + at);
    case Codes::kInt8:
      return put_bytes<NearestInt8>(values, scale, count, codes + at);
    case Codes::kInt4:
      return put_halves<NearestInt4>(values, scale, count, at, codes);
    case Codes::kNormalFloat4:
      return put_halves<NearestNormalFloat4>(values, scale, count, at, codes);
    case Codes::kFloat4E2M1:
    case Codes::kBFloat16:
      break;
  }
  put_halves<NearestFloat4>(values, scale, count, at, codes);
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
