// Vector code that the packing of tiles and the loops between products share. Internal to src/ops.
#pragma once

#include "ops/cpu/tiles/layout.hpp"

#ifdef SLUICE_TILES

#include <immintrin.h>

// GCC warns of the deliberately undefined operands inside its own vector functions.
#if defined(__GNUC__) && !defined(__clang__)
#define SLUICE_VECTORS_BEGIN                                                                 \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"") \
      _Pragma("GCC diagnostic ignored \"-Wuninitialized\"")
#define SLUICE_VECTORS_END _Pragma("GCC diagnostic pop")
#else
#define SLUICE_VECTORS_BEGIN
#define SLUICE_VECTORS_END
#endif

SLUICE_VECTORS_BEGIN

namespace sluice::ops::cpu::tiles {

/// Transposes a matrix of 16 x 16 elements of four bytes, one register per row.
SLUICE_TILES inline void transpose(__m512i* rows) {
  __m512i half[16];
  for (int i = 0; i < 16; i += 2) {
    half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    half[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
    half[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
    half[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
    half[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0xdd);
    rows[i + 4] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0x88);
    rows[i + 12] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0xdd);
  }
}

/// Neighbours in depth side by side, as rows of right tiles: one register for the lower 16 lines, one for the
/// upper 16.
struct Pairs {
  __m512i lower, upper;
};

/// Interleaves two lines of 32 elements of two bytes each.
SLUICE_TILES inline Pairs pairs_of(__m512i even, __m512i odd) {
  const __m512i lower = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_add_epi16(lower, _mm512_set1_epi16(16));
  return {_mm512_permutex2var_epi16(even, lower, odd), _mm512_permutex2var_epi16(even, upper, odd)};
}

/// Interleaves the two neighbours of 16 lines that a register holds one after the other.
SLUICE_TILES inline __m512i side_by_side(__m512i both) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, both);
}

}  // namespace sluice::ops::cpu::tiles

SLUICE_VECTORS_END

#endif
