// Products of bfloat16 on Arm processors that multiply matrices of it (BFMMLA).
#include "ops/cpu/products/arm.hpp"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstring>

#define SLUICE_ARM_BFLOAT16 __attribute__((target("arch=armv8.2-a+bf16")))

namespace sluice::ops::cpu::products::arm_bfloat16 {
namespace {

constexpr std::int64_t kPairs = kLines / 2;
constexpr std::int64_t kVector = 8;                 ///< bfloat16 numbers in a vector.
constexpr std::int64_t kStepSize = kStep * kLines;  ///< bfloat16 numbers in a step of a panel.

SLUICE_ELEMENT uint16x8_t joined(uint16x8_t lower, uint16x8_t upper, bool takes_upper) {
  const auto a = vreinterpretq_u64_u16(lower), b = vreinterpretq_u64_u16(upper);
  return vreinterpretq_u16_u64(takes_upper ? vzip2q_u64(a, b) : vzip1q_u64(a, b));
}

/// Packs eight of the depth, two steps, of kLines whole rows.
SLUICE_ELEMENT void pack_two_steps(const std::uint16_t* from, std::int64_t stride, std::uint16_t* to) {
#pragma GCC unroll 4
  for (std::int64_t pair = 0; pair < kPairs; ++pair) {
    const uint16x8_t even = vld1q_u16(from + 2 * pair * stride),
                     odd = vld1q_u16(from + (2 * pair + 1) * stride);
    vst1q_u16(to + pair * kVector, joined(even, odd, false));
    vst1q_u16(to + kStepSize + pair * kVector, joined(even, odd, true));
  }
}

/// Packs a step of four rows of the depth, of kLines numbers each.
SLUICE_ELEMENT void pack_step(const uint16x8_t (&rows)[kStep], std::uint16_t* to) {
  const uint16x8_t even = vzip1q_u16(rows[0], rows[2]), odd = vzip1q_u16(rows[1], rows[3]);
  const uint16x8_t even_above = vzip2q_u16(rows[0], rows[2]), odd_above = vzip2q_u16(rows[1], rows[3]);
  vst1q_u16(to, vzip1q_u16(even, odd));
  vst1q_u16(to + kVector, vzip2q_u16(even, odd));
  vst1q_u16(to + 2 * kVector, vzip1q_u16(even_above, odd_above));
  vst1q_u16(to + 3 * kVector, vzip2q_u16(even_above, odd_above));
}

/// Writes the first `columns` of eight sums of a row.
SLUICE_ELEMENT void write_row(const float (&numbers)[kLines], const Sums& row) {
  if (row.columns >= kLines) {
    const float32x4_t lower = vld1q_f32(numbers), upper = vld1q_f32(numbers + 4);
    vst1q_f32(row.data, row.adds ? vaddq_f32(vld1q_f32(row.data), lower) : lower);
    vst1q_f32(row.data + 4, row.adds ? vaddq_f32(vld1q_f32(row.data + 4), upper) : upper);
  } else {
    for (std::int64_t i = 0; i < row.columns; ++i) row.data[i] = (row.adds ? row.data[i] : 0.0F) + numbers[i];
  }
}

}  // namespace

bool serves() { return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0; }

void pack_rows(const Halves& from, std::uint16_t* panel) {
  std::int64_t column = 0;
  if (from.rows == kLines)
    for (; column + kVector <= from.columns; column += kVector)
      pack_two_steps(from.data + column, from.stride, panel + column * kLines);
  for (; column < from.columns; column += kVector) {
    std::uint16_t some[kLines][kVector] = {}, packed[2 * kStepSize];
    const std::int64_t count = std::min(kVector, from.columns - column);
    for (std::int64_t row = 0; row < from.rows; ++row)
      std::copy_n(from.data + row * from.stride + column, count, some[row]);
    pack_two_steps(some[0], kVector, packed);
    std::copy_n(packed, count > kStep ? 2 * kStepSize : kStepSize, panel + column * kLines);
  }
}

void pack_columns(const Halves& from, std::uint16_t* panel) {
  for (std::int64_t row = 0; row < from.rows; row += kStep) {
    uint16x8_t rows[kStep];
    for (std::int64_t i = 0; i < kStep; ++i) {
      const std::uint16_t* const numbers = from.data + (row + i) * from.stride;
      std::uint16_t some[kLines] = {};
      if (row + i < from.rows && from.columns < kLines) std::copy_n(numbers, from.columns, some);
      rows[i] = vld1q_u16(row + i < from.rows && from.columns >= kLines ? numbers : some);
    }
    pack_step(rows, panel + row * kLines);
  }
}

SLUICE_ARM_BFLOAT16 void multiply(const std::uint16_t* left, std::int64_t rows, const std::uint16_t* right,
                                  std::int64_t depth, const Sums& sums) {
  float32x4_t blocks[kPairs][kPairs];  // Of a pair of rows and a pair of columns: two rows of two sums.
  for (auto& of_rows : blocks)
    for (float32x4_t& block : of_rows) block = vdupq_n_f32(0);
  for (std::int64_t d = 0; d < depth; d += kStep, left += kStepSize, right += kStepSize) {
    bfloat16x8_t of_rows[kPairs], of_columns[kPairs];
#pragma GCC unroll 4
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      of_rows[pair] = vreinterpretq_bf16_u16(vld1q_u16(left + pair * kVector));
      of_columns[pair] = vreinterpretq_bf16_u16(vld1q_u16(right + pair * kVector));
    }
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kPairs; ++i)
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < kPairs; ++j)
        blocks[i][j] = vbfmmlaq_f32(blocks[i][j], of_rows[i], of_columns[j]);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    float numbers[kLines];
    for (std::int64_t j = 0; j < kPairs; ++j)
      std::memcpy(numbers + 2 * j, reinterpret_cast<const float*>(&blocks[row / 2][j]) + row % 2 * 2,
                  2 * sizeof(float));
    write_row(numbers, {sums.data + row * sums.stride, 0, sums.columns, sums.adds});
  }
}

}  // namespace sluice::ops::cpu::products::arm_bfloat16

#endif
