// Dequantisation of one row with vectors of x86 processors. Private to src/encoding.
#pragma once

#include "encoding/row_kernel.hpp"

#if defined(__x86_64__)
#include <cmath>
#include <limits>
#include <type_traits>
// GCC 12 warns of undefined lanes with which its own intrinsics begin.
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#define SLUICE_ENCODING_AVX2 __attribute__((target("avx2,f16c")))
#define SLUICE_ENCODING_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,f16c")))

namespace sluice::encoding {

// Unit of vectors: an 8-bit code lies in the exponent and mantissa of a float16, and the instruction that
// widens a float16 handles subnormals at full speed. It gives 2^-8 of the code's number, and NaN for an
// exponent of ones; the scale makes up for the factor.

/// Whether the scale times the unit of vectors is finite; products with NaN and infinity take another path,
/// so that vectors are rounded without regard to them. A code that is NaN has zeros in the lower bits of its
/// mantissa, and stays NaN.
template <class Code>
bool takes_vectors(float scale) {
  return std::abs(scale) <= std::numeric_limits<float>::max() / Code::kUnit;
}

/// Dequantisation of 8 elements at a time with AVX2.
struct Avx2 {
  static constexpr std::int64_t kLanes = 16;
  struct Values {
    __m256 low, high;
  };

  /// 16 codes as float16: shifted by 7 bits, without the second sign bit that the shift makes.
  SLUICE_ENCODING_AVX2 static __m256i as_halves(const std::byte* codes) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);
    const __m256i magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x3f80));
    const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x3f80));
    const __m256i halves = _mm256_and_si256(wide, _mm256_set1_epi16(static_cast<std::int16_t>(0xbfff)));
    return _mm256_blendv_epi8(halves, _mm256_set1_epi16(0x7e00), is_nan);
  }
  SLUICE_ENCODING_AVX2 static Values load(Float8Code /*code*/, const std::byte* codes) {
    const __m256i halves = as_halves(codes);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
  }
  SLUICE_ENCODING_AVX2 static Values load(Int8Code /*code*/, const std::byte* codes) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  /// Loads 8 codes of 4 bits, each in the lower half of its lane; upper bits are other codes.
  SLUICE_ENCODING_AVX2 static __m256i load_word(const std::byte* codes) {
    std::int32_t word = 0;
    std::memcpy(&word, codes, sizeof(word));
    return _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  }
  SLUICE_ENCODING_AVX2 static __m256 as_int4(__m256i codes) {
    const __m256i number = _mm256_and_si256(codes, _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(number, _mm256_set1_epi32(8)));
  }
  SLUICE_ENCODING_AVX2 static Values load(Int4Code /*code*/, const std::byte* codes) {
    return {as_int4(load_word(codes)), as_int4(load_word(codes + 4))};
  }
  /// Permutations use the lowest 3 bits of a lane; the fourth bit chooses a half of the table.
  SLUICE_ENCODING_AVX2 static __m256 as_normal_float4(__m256i codes) {
    const float* const numbers = NormalFloat4Code::kNumbers.data();
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(numbers), codes);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(numbers + 8), codes);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
  }
  SLUICE_ENCODING_AVX2 static Values load(NormalFloat4Code /*code*/, const std::byte* codes) {
    return {as_normal_float4(load_word(codes)), as_normal_float4(load_word(codes + 4))};
  }
  SLUICE_ENCODING_AVX2 static Values load(Float4Code /*code*/, const std::byte* codes) {
    const __m128i both = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
    const __m128i low = _mm_and_si128(both, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), _mm_set1_epi8(15));
    // Upper bytes of float16 numbers, whose lower bytes are 0.
    const __m128i numbers = _mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, -0x80, -0x48, -0x44,
                                          -0x42, -0x40, -0x3e, -0x3c, -0x3a);
    const __m128i upper = _mm_shuffle_epi8(numbers, _mm_unpacklo_epi8(low, high));
    const __m128i zero = _mm_setzero_si128();
    return {_mm256_cvtph_ps(_mm_unpacklo_epi8(zero, upper)), _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, upper))};
  }
  SLUICE_ENCODING_AVX2 static Values product(Values values, __m256 scale) {
    return {_mm256_mul_ps(values.low, scale), _mm256_mul_ps(values.high, scale)};
  }
  /// Bits of bfloat16 in the lower half of each lane, rounded.
  SLUICE_ENCODING_AVX2 static __m256i rounded(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  }
  SLUICE_ENCODING_AVX2 static void store(BFloat16Out /*out*/, Values values, std::byte* target) {
    const __m256i packed = _mm256_packus_epi32(rounded(values.low), rounded(values.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  /// Table of the 16 products of 4-bit codes and a scale, rounded to bfloat16, as bytes.
  struct Table {
    __m128i lower, upper;
  };
  template <class Code>
  SLUICE_ENCODING_AVX2 static Table table_of(__m256 scale) {
    const float* const numbers = Code::kNumbers.data();
    const __m256i low = rounded(_mm256_mul_ps(_mm256_loadu_ps(numbers), scale));
    const __m256i high = rounded(_mm256_mul_ps(_mm256_loadu_ps(numbers + 8), scale));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
    const __m256i apart =
        _mm256_shuffle_epi8(packed, _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15, 0,
                                                     2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
    const __m256i joined = _mm256_permute4x64_epi64(apart, 0xd8);
    return {_mm256_castsi256_si128(joined), _mm256_extracti128_si256(joined, 1)};
  }
  /// Looks up 16 entries of the table by the bytes of `codes`.
  SLUICE_ENCODING_AVX2 static void look_up(const Table& table, __m128i codes, std::byte* target) {
    const __m128i lower = _mm_shuffle_epi8(table.lower, codes), upper = _mm_shuffle_epi8(table.upper, codes);
    auto* const to = reinterpret_cast<__m128i*>(target);
    _mm_storeu_si128(to, _mm_unpacklo_epi8(lower, upper));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi8(lower, upper));
  }
  /// Looks up 32 entries of the table by 16 bytes of 4-bit codes.
  SLUICE_ENCODING_AVX2 static void look_up(const Table& table, const std::byte* codes, std::byte* target) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m128i low = _mm_and_si128(both, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), _mm_set1_epi8(15));
    look_up(table, _mm_unpacklo_epi8(low, high), target);
    look_up(table, _mm_unpackhi_epi8(low, high), target + 32);
  }
  SLUICE_ENCODING_AVX2 static void store(Float32Out /*out*/, Values values, std::byte* target) {
    auto* const to = reinterpret_cast<__m256i*>(target);
    _mm256_storeu_si256(to, _mm256_slli_epi32(rounded(values.low), 16));
    _mm256_storeu_si256(to + 1, _mm256_slli_epi32(rounded(values.high), 16));
  }
};

/// Whether numbers of a group are looked up in a table of all products, 32 at a time.
template <class Code, class Out>
inline constexpr bool kHasTable = Code::kBits == 4 && std::is_same_v<Out, BFloat16Out>;
inline constexpr std::int64_t kTableLanes = 32;

template <class Code, class Out>
SLUICE_ENCODING_AVX2 void dequantise_row_avx2(const RowPart& row) {
  std::int64_t done = 0;
  for (std::int64_t block = 0, phase = row.phase; done < row.count; ++block, phase = 0) {
    const std::int64_t end = std::min(row.count, done + row.block - phase);
    const __m256 scale = _mm256_set1_ps(row.scales[block] * Code::kUnit);
    if constexpr (kHasTable<Code, Out>)
      if (takes_vectors<Code>(row.scales[block]) && done + kTableLanes <= end) {
        const Avx2::Table table = Avx2::table_of<Code>(scale);
        for (; done + kTableLanes <= end; done += kTableLanes)
          Avx2::look_up(table, row.codes + done / 2, row.target + done * Out::kBytes);
      }
    for (; takes_vectors<Code>(row.scales[block]) && done + Avx2::kLanes <= end; done += Avx2::kLanes) {
      const Avx2::Values codes = Avx2::load(Code(), row.codes + done * Code::kBits / 8);
      Avx2::store(Out(), Avx2::product(codes, scale), row.target + done * Out::kBytes);
    }
    dequantise_some<Code, Out>(row.codes, row.scales[block], row.target, done, end);
    done = end;
  }
}

/// Dequantisation of 16 elements at a time with AVX-512.
struct Avx512 {
  static constexpr std::int64_t kLanes = 16;

  SLUICE_ENCODING_AVX512 static __m512 load(Float8Code /*code*/, const std::byte* codes) {
    return _mm512_cvtph_ps(Avx2::as_halves(codes));
  }
  /// Looks up the entries of `numbers` for 16 codes of 4 bits.
  SLUICE_ENCODING_AVX512 static __m512 look_up(__m512 numbers, const std::byte* codes) {
    std::int64_t words = 0;
    std::memcpy(&words, codes, sizeof(words));
    // Lanes 0 to 7 are of the lower word, 8 to 15 of the upper one.
    const __m512i halves = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), _mm512_set1_epi64(words));
    const __m512i shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(halves, shifts), numbers);
  }
  /// Table of the 16 products of 4-bit codes and a scale, rounded to bfloat16, twice.
  template <class Code>
  SLUICE_ENCODING_AVX512 static __m512i table_of(__m512 scale) {
    const __m512 products = _mm512_mul_ps(_mm512_loadu_ps(Code::kNumbers.data()), scale);
    return _mm512_broadcast_i64x4(_mm512_cvtepi32_epi16(rounded(products)));
  }
  /// Looks up 32 entries of the table by 16 bytes of 4-bit codes: the lowest 5 bits of a word choose.
  SLUICE_ENCODING_AVX512 static void look_up(__m512i table, const std::byte* codes, std::byte* target) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    const __m512i both = _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12));
    _mm512_storeu_si512(target, _mm512_permutexvar_epi16(both, table));
  }
  SLUICE_ENCODING_AVX512 static __m512 load(Int4Code /*code*/, const std::byte* codes) {
    return look_up(_mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7), codes);
  }
  SLUICE_ENCODING_AVX512 static __m512 load(Float4Code /*code*/, const std::byte* codes) {
    return look_up(_mm512_loadu_ps(Float4Code::kNumbers.data()), codes);
  }
  SLUICE_ENCODING_AVX512 static __m512 load(NormalFloat4Code /*code*/, const std::byte* codes) {
    return look_up(_mm512_loadu_ps(NormalFloat4Code::kNumbers.data()), codes);
  }
  SLUICE_ENCODING_AVX512 static __m512 load(Int8Code /*code*/, const std::byte* codes) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  /// Bits of bfloat16 in the lower half of each lane, rounded; the processor's own instruction would flush
  /// subnormals to zero.
  SLUICE_ENCODING_AVX512 static __m512i rounded(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff));
    return _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  }
  SLUICE_ENCODING_AVX512 static void store(BFloat16Out /*out*/, __m512 values, std::byte* target) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm512_cvtepi32_epi16(rounded(values)));
  }
  SLUICE_ENCODING_AVX512 static void store(Float32Out /*out*/, __m512 values, std::byte* target) {
    _mm512_storeu_si512(target, _mm512_slli_epi32(rounded(values), 16));
  }
};

template <class Code, class Out>
SLUICE_ENCODING_AVX512 void dequantise_row_avx512(const RowPart& row) {
  std::int64_t done = 0;
  for (std::int64_t block = 0, phase = row.phase; done < row.count; ++block, phase = 0) {
    const std::int64_t end = std::min(row.count, done + row.block - phase);
    const __m512 scale = _mm512_set1_ps(row.scales[block] * Code::kUnit);
    if constexpr (kHasTable<Code, Out>)
      if (takes_vectors<Code>(row.scales[block]) && done + kTableLanes <= end) {
        const __m512i table = Avx512::table_of<Code>(scale);
        for (; done + kTableLanes <= end; done += kTableLanes)
          Avx512::look_up(table, row.codes + done / 2, row.target + done * Out::kBytes);
      }
    for (; takes_vectors<Code>(row.scales[block]) && done + Avx512::kLanes <= end; done += Avx512::kLanes) {
      const __m512 codes = Avx512::load(Code(), row.codes + done * Code::kBits / 8);
      Avx512::store(Out(), _mm512_mul_ps(codes, scale), row.target + done * Out::kBytes);
    }
    dequantise_some<Code, Out>(row.codes, row.scales[block], row.target, done, end);
    done = end;
  }
}

}  // namespace sluice::encoding
#pragma GCC diagnostic pop
#endif
