// Products on 64-bit Arm processors, with vectors of 16 bytes and multiplication by a number of a vector.
#include "ops/cpu/products/arm.hpp"
#include "ops/cpu/products/kernels.hpp"

#if defined(__aarch64__)

#include <arm_neon.h>

namespace sluice::ops::cpu::products {
namespace {

/// Packs as MicroKernel does; its own loop reads numbers of the left side by vectors, four of the depth at a
/// time. Sums have the bits of kAnyProcessor.
class Loops : public MicroKernel<Vectors16, /*kRows=*/8, /*kVectors=*/2> {
 public:
  SLUICE_ELEMENT static void multiply(const float* left, std::int64_t rows, const float* right,
                                      std::int64_t depth, const Sums& sums) {
    multiply_some<kBlockRows>(left, rows, right, depth, sums);
  }

 private:
  static constexpr std::int64_t kStep = 4;  ///< Numbers of the depth in a vector.

  template <std::int64_t kCount>
  SLUICE_ELEMENT static void multiply_some(const float* left, std::int64_t rows, const float* right,
                                           std::int64_t depth, const Sums& sums) {
    if (rows == kCount)
      multiply_rows<kCount>(left, right, depth, sums);
    else if constexpr (kCount > 1)
      multiply_some<kCount - 1>(left, rows, right, depth, sums);
  }

  template <std::int64_t kCount>
  SLUICE_ELEMENT static void multiply_rows(const float* left, const float* right, std::int64_t depth,
                                           const Sums& sums) {
    float32x4_t blocks[kCount][2];
#pragma GCC unroll 8
    for (std::int64_t row = 0; row < kCount; ++row) blocks[row][0] = blocks[row][1] = vdupq_n_f32(0);
    std::int64_t d = 0;
    for (; d + kStep <= depth; d += kStep, left += kStep, right += kStep * kColumns) {
      float32x4_t rows[kCount];
#pragma GCC unroll 8
      for (std::int64_t row = 0; row < kCount; ++row) rows[row] = vld1q_f32(left + row * kLeftStride);
      add_depth<0>(rows, right, blocks);
      add_depth<1>(rows, right, blocks);
      add_depth<2>(rows, right, blocks);
      add_depth<3>(rows, right, blocks);
    }
    for (; d < depth; ++d, ++left, right += kColumns) {
      float32x4_t rows[kCount];
#pragma GCC unroll 8
      for (std::int64_t row = 0; row < kCount; ++row) rows[row] = vld1q_dup_f32(left + row * kLeftStride);
      add_depth<0>(rows, right, blocks);
    }
#pragma GCC unroll 8
    for (std::int64_t row = 0; row < kCount; ++row) {
      const Sums of_row{sums.data + row * sums.stride, 0, sums.columns, sums.adds};
      write(blocks[row][0], of_row);
      write(blocks[row][1], {of_row.data + 4, 0, sums.columns - 4, sums.adds});
    }
  }

  /// Adds the products of number kNumber of each row's vector with row kNumber of the right side.
  template <int kNumber, std::int64_t kCount>
  SLUICE_ELEMENT static void add_depth(const float32x4_t (&rows)[kCount], const float* right,
                                       float32x4_t (&blocks)[kCount][2]) {
    const float32x4_t first = vld1q_f32(right + kNumber * kColumns),
                      second = vld1q_f32(right + kNumber * kColumns + 4);
#pragma GCC unroll 8
    for (std::int64_t row = 0; row < kCount; ++row) {
      blocks[row][0] = vfmaq_laneq_f32(blocks[row][0], first, rows[row], kNumber);
      blocks[row][1] = vfmaq_laneq_f32(blocks[row][1], second, rows[row], kNumber);
    }
  }

  /// Writes up to four numbers of a row.
  SLUICE_ELEMENT static void write(float32x4_t numbers, const Sums& sums) {
    if (sums.columns >= 4) {
      vst1q_f32(sums.data, sums.adds ? vaddq_f32(vld1q_f32(sums.data), numbers) : numbers);
    } else {
      for (std::int64_t i = 0; i < sums.columns; ++i)
        sums.data[i] = (sums.adds ? sums.data[i] : 0.0F) + numbers[i];
    }
  }
};

}  // namespace

SLUICE_PRODUCT_KERNEL(kNeon, "on vectors of float32 (NEON)", , Loops);

}  // namespace sluice::ops::cpu::products

#endif
