// Dequantisation of one row without vectors; vector versions use it for the rest of a block. Private to
// src/encoding.
#pragma once

#include "base/dtype.hpp"
#include "encoding/encoding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::encoding {

/// `count` consecutive elements of a row, the first of which has index `phase` in its block; blocks have
/// `block` columns and one scale each.
struct RowPart {
  const std::byte* codes = nullptr;
  const float* scales = nullptr;
  std::byte* target = nullptr;
  std::int64_t phase = 0;
  std::int64_t count = 0;
  std::int64_t block = 0;
};

// The types below read codes as float32: the i-th code from an even place on. Vectors load codes in units of
// 1 / kUnit.

/// FP8 (E4M3) codes, one byte each.
struct Float8Code {
  static constexpr std::int64_t kBits = 8;
  static constexpr float kUnit = 0x1p8F;
  /// Value of a code, without branches, so that compilers vectorise loops.
  static float value(const std::byte* codes, std::int64_t i) {
    const auto code = std::to_integer<std::int32_t>(codes[i]);
    const std::int32_t sign = (code & 0x80) << 24;
    const std::int32_t magnitude = code & 0x7f;
    // Exponents differ by 120; below the smallest normal number, units are 2^-9.
    const std::int32_t normal = (magnitude << 20) + (120 << 23);
    const auto small = std::bit_cast<std::int32_t>(static_cast<float>(magnitude) * 0x1p-9F);
    const std::int32_t is_small = -static_cast<std::int32_t>(magnitude < 8);
    const std::int32_t nan = -static_cast<std::int32_t>(magnitude == 0x7f) & 0x7fc00000;
    return std::bit_cast<float>(sign | (small & is_small) | (normal & ~is_small) | nan);
  }
};

/// INT8 codes, one byte each.
struct Int8Code {
  static constexpr std::int64_t kBits = 8;
  static constexpr float kUnit = 1;
  static float value(const std::byte* codes, std::int64_t i) {
    return static_cast<float>(std::to_integer<std::int8_t>(codes[i]));
  }
};

/// 4-bit codes with a table of numbers; the lower half of a byte holds the first code.
template <class Numbers>
struct HalfByteCode {
  static constexpr std::int64_t kBits = 4;
  static constexpr float kUnit = 1;
  static constexpr const std::array<float, 16>& kNumbers = Numbers::kNumbers;
  static float value(const std::byte* codes, std::int64_t i) {
    const auto both = std::to_integer<std::size_t>(codes[i / 2]);
    return kNumbers[i % 2 == 0 ? both & 15U : both >> 4];
  }
};

/// Table of the numbers of 4-bit integer codes.
struct Int4Numbers {
  static constexpr std::array<float, 16> kNumbers{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
};
/// Table of the numbers of FP4 (E2M1) codes.
struct Float4Numbers {
  static constexpr std::array<float, 16> kNumbers{0,     0.5F,  1,     1.5F,  2,     3,     4,     6,
                                                  -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
};
/// Table of the numbers of NF4 codes, ascending, as in bitsandbytes.
struct NormalFloat4Numbers {
  static constexpr std::array<float, 16> kNumbers{-1.0F,        -0.69619280F, -0.52507305F,  -0.39491749F,
                                                  -0.28444138F, -0.18477343F, -0.091050036F, 0.0F,
                                                  0.079580300F, 0.16093020F,  0.24611230F,   0.33791524F,
                                                  0.44070983F,  0.56261700F,  0.72295684F,   1.0F};
};
using NormalFloat4Code = HalfByteCode<NormalFloat4Numbers>;
using Int4Code = HalfByteCode<Int4Numbers>;
using Float4Code = HalfByteCode<Float4Numbers>;

// The types below write numbers that are rounded to bfloat16, in either type.

/// bfloat16_bits() as an inline function, for loops.
inline std::uint32_t rounded_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const auto is_nan = -static_cast<std::int32_t>(static_cast<std::int32_t>(bits & 0x7fffffffU) > 0x7f800000);
  return (rounded & ~static_cast<std::uint32_t>(is_nan)) | (0x7fc0U & static_cast<std::uint32_t>(is_nan));
}

/// Output of bfloat16 elements.
struct BFloat16Out {
  static constexpr std::int64_t kBytes = 2;
  static void put(float value, std::byte* target, std::int64_t i) {
    const auto bits = static_cast<std::uint16_t>(rounded_bits(value));
    std::memcpy(target + i * kBytes, &bits, kBytes);
  }
};

/// Output of float32 elements.
struct Float32Out {
  static constexpr std::int64_t kBytes = 4;
  static void put(float value, std::byte* target, std::int64_t i) {
    const std::uint32_t bits = rounded_bits(value) << 16;
    std::memcpy(target + i * kBytes, &bits, kBytes);
  }
};

/// Dequantises elements [begin, end) of a row part under one scale.
template <class Code, class Out>
void dequantise_some(const std::byte* codes, float scale, std::byte* target, std::int64_t begin,
                     std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float product = Code::value(codes, i) * scale;
    Out::put(product, target, i);
  }
}

/// Dequantises 4-bit codes by a table of 16 products. The first code is in the lower half of a byte.
template <class Code, class Out>
void dequantise_by_table(const std::byte* codes, float scale, std::byte* target, std::int64_t begin,
                         std::int64_t end) {
  std::array<std::byte, 16 * Out::kBytes> table;
  for (std::size_t code = 0; code < Code::kNumbers.size(); ++code)
    Out::put(Code::kNumbers[code] * scale, table.data(), static_cast<std::int64_t>(code));
  std::int64_t i = begin;
  for (; i + 2 <= end; i += 2) {
    const auto both = std::to_integer<std::size_t>(codes[i / 2]);
    std::memcpy(target + i * Out::kBytes, &table[(both & 15U) * Out::kBytes], Out::kBytes);
    std::memcpy(target + (i + 1) * Out::kBytes, &table[(both >> 4) * Out::kBytes], Out::kBytes);
  }
  dequantise_some<Code, Out>(codes, scale, target, i, end);
}

template <class Code, class Out>
void dequantise_row(const RowPart& row) {
  std::int64_t done = 0;
  for (std::int64_t block = 0, phase = row.phase; done < row.count; ++block, phase = 0) {
    const std::int64_t end = std::min(row.count, done + row.block - phase);
    if constexpr (Code::kBits == 4)
      dequantise_by_table<Code, Out>(row.codes, row.scales[block], row.target, done, end);
    else
      dequantise_some<Code, Out>(row.codes, row.scales[block], row.target, done, end);
    done = end;
  }
}

}  // namespace sluice::encoding
