// Codes of one row into numbers, without vectors; what the vector versions do with the rest of a block.
// Private to src/encoding.
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

/// `count` neighbours of a row, of which the first is number `phase` of its block; blocks have `block`
/// columns and a scale each.
struct RowPart {
  const std::byte* codes = nullptr;
  const float* scales = nullptr;
  std::byte* target = nullptr;
  std::int64_t phase = 0;
  std::int64_t count = 0;
  std::int64_t block = 0;
};

// Codes as float32: the i-th one from an even place on. Vectors load them in units of 1 / kUnit.

struct Float8Code {
  static constexpr std::int64_t kBits = 8;
  static constexpr float kUnit = 0x1p8F;
  static float value(const std::byte* codes, std::int64_t i) {
    const auto code = std::to_integer<std::uint32_t>(codes[i]);
    const std::uint32_t sign = (code & 0x80U) << 24;
    const std::uint32_t magnitude = code & 0x7fU;
    if (magnitude == 0x7fU) return std::bit_cast<float>(sign | 0x7fc00000U);
    // Exponents differ by 120; below the smallest normal number, units are 2^-9.
    if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120U << 23)));
    const float small = static_cast<float>(magnitude) * 0x1p-9F;
    return sign != 0 ? -small : small;
  }
};

struct Int4Code {
  static constexpr std::int64_t kBits = 4;
  static constexpr float kUnit = 1;
  static float value(const std::byte* codes, std::int64_t i) {
    const int both = std::to_integer<int>(codes[i / 2]);
    return static_cast<float>((i % 2 == 0 ? both & 15 : both >> 4) - 8);
  }
};

struct Float4Code {
  static constexpr std::int64_t kBits = 4;
  static constexpr float kUnit = 1;
  static constexpr std::array<float, 16> kNumbers{0,     0.5F,  1,     1.5F,  2,     3,     4,     6,
                                                  -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  static float value(const std::byte* codes, std::int64_t i) {
    const auto both = std::to_integer<std::size_t>(codes[i / 2]);
    return kNumbers[i % 2 == 0 ? both & 15U : both >> 4];
  }
};

// Numbers as they are stored: rounded to bfloat16 in either case.

struct BFloat16Out {
  static constexpr std::int64_t kBytes = 2;
  static void put(float value, std::byte* target, std::int64_t i) {
    const std::uint16_t bits = bfloat16_bits(value);
    std::memcpy(target + i * kBytes, &bits, kBytes);
  }
};

struct Float32Out {
  static constexpr std::int64_t kBytes = 4;
  static void put(float value, std::byte* target, std::int64_t i) {
    const float rounded = bfloat16_value(bfloat16_bits(value));
    std::memcpy(target + i * kBytes, &rounded, kBytes);
  }
};

/// Elements [begin, end) of a row part under one scale.
template <class Code, class Out>
void dequantise_some(const std::byte* codes, float scale, std::byte* target, std::int64_t begin,
                     std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float product = Code::value(codes, i) * scale;
    Out::put(product, target, i);
  }
}

template <class Code, class Out>
void dequantise_row(const RowPart& row) {
  std::int64_t done = 0;
  for (std::int64_t block = 0, phase = row.phase; done < row.count; ++block, phase = 0) {
    const std::int64_t end = std::min(row.count, done + row.block - phase);
    dequantise_some<Code, Out>(row.codes, row.scales[block], row.target, done, end);
    done = end;
  }
}

}  // namespace sluice::encoding
