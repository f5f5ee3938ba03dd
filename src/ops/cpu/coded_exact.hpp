// Exact products of few rows with codes, on vectors of bfloat16 or of float32. Private to coded_rows.cpp.
#pragma once

#include "encoding/dequantise.hpp"
#include "ops/cpu/coded_tile.hpp"
#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/lanes.hpp"
#include "ops/cpu/tiles/layout.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice::ops::cpu {

/// Rows of a product's left side in bfloat16, and what loops over codes have in common that give the bits of
/// the loop over bfloat16 weights.
class RowsOfExact {
 public:
  /// The rows with their scales, which lie in `scales`.
  static CodedTile tile_of(const CodedRows& rows, std::vector<float>& scales) {
    const std::int64_t stride = rows.encoding->grid_columns();
    scales.resize(static_cast<std::size_t>(rows.count * stride));
    read_scales(*rows.encoding, rows.scales, rows.count * stride, scales.data());
    return {rows, scales.data(), stride};
  }

 protected:
  static constexpr std::int64_t kLine = 32;  ///< columns that are read at a time

  explicit RowsOfExact(const DenseRows<at::BFloat16>& rows) : rows_(rows) {}

  /// Lines that have one scale, or two.
  static std::int64_t lines_of_scale(const Encoding& encoding) {
    const std::int64_t columns = encoding.grid_columns() == 1 ? encoding.columns : encoding.block_columns;
    return divide_up(columns, kLine);
  }

  /// Whether conversions to bfloat16 by vectors give the bits of dequantise() for every code under these
  /// scales: the scales are numbers, and products of codes above 2^-4 with them are no subnormals, which
  /// vectors would flush.
  static bool suit_vectors(const float* scales, std::int64_t count) {
    constexpr std::uint32_t kLeast = 5U << 23, kInfinity = 0x7f800000U;  // bits of 2^-122 and of infinity
    std::uint32_t others = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(scales[i]) & 0x7fffffffU;
      const bool is_normal = magnitude - kLeast < kInfinity - kLeast;
      others |= static_cast<std::uint32_t>(!is_normal) & static_cast<std::uint32_t>(magnitude != 0);
    }
    return others == 0;
  }

  /// Computes the sums of a tile by way of numbers.
  template <std::int64_t kRows, std::int64_t kWeights>
  void multiply_numbers(std::int64_t first, const CodedTile& weights, float* out) const {
    const std::int64_t columns = weights.columns(), begin = weights.rows.row * columns;
    std::vector<at::BFloat16> numbers(static_cast<std::size_t>(kWeights * columns));
    dequantise(*weights.rows.encoding, {begin, begin + kWeights * columns}, weights.rows.codes,
               weights.rows.scales, DType::kBFloat16, reinterpret_cast<std::byte*>(numbers.data()));
    multiply_rows<at::BFloat16>({rows_.data + first * rows_.stride, kRows, rows_.stride},
                                {numbers.data(), kWeights, columns}, columns, out);
  }

  DenseRows<at::BFloat16> rows_;
};

}  // namespace sluice::ops::cpu

#ifdef SLUICE_TILES
#include <immintrin.h>

SLUICE_INTRINSICS_BEGIN

namespace sluice::ops::cpu {

/// Width of codes, and whether lines of 32 columns have one scale or two.
enum class ExactForm : std::uint8_t { kHalfBytes, kHalfBytesInGroupsOf16, kBytes };

/// Rows of a product's left side in bfloat16, read where they lie, and how they meet codes.
template <ExactForm kForm>
class ExactRows : public RowsOfExact {
 public:
  /// The encoding must outlive the object.
  ExactRows(const DenseRows<at::BFloat16>& rows, const Encoding& encoding)
      : RowsOfExact(rows), lines_per_scale_(lines_of_scale(encoding)) {
    if (kForm != ExactForm::kBytes) numbers_ = numbers_of(encoding.codes);
  }

  /// Computes the sums of rows [first, first + kRows) with weights [0, kWeights) into out[row * kWeights +
  /// weight], in the order of the loop over bfloat16 weights.
  template <std::int64_t kRows, std::int64_t kWeights>
  SLUICE_TILES void multiply(std::int64_t first, const CodedTile& weights, float* out) const {
    if (!suit_vectors(weights.scales, kWeights * weights.stride))
      return multiply_numbers<kRows, kWeights>(first, weights, out);
    Lanes sums[kRows][kWeights];
    for (auto& of_row : sums)
      for (Lanes& sum : of_row) sum = Lanes{};
    const auto* row = reinterpret_cast<const std::uint16_t*>(rows_.data) + first * rows_.stride;
    const std::byte* codes = weights.rows.codes;
    const std::int64_t row_bytes = weights.row_bytes, scale_stride = weights.stride;
    const float* scale = weights.scales;
    CodesAhead ahead(weights, kWeights);
    __m512i tables[kWeights];
    std::int64_t lines_left = 0;
    for (std::int64_t left = weights.columns(); left > 0; left -= kLine, row += kLine, codes += kLineBytes) {
      if (lines_left == 0) {
        make_tables<kWeights>(scale, scale_stride, left, tables);
        scale += kScalesOfLine;
        lines_left = lines_per_scale_;
      }
      --lines_left;
      if (left >= kLine)
        add_line<kRows, kWeights, true>(row, codes, row_bytes, kLine, tables, ahead, sums);
      else
        add_line<kRows, kWeights, false>(row, codes, row_bytes, left, tables, ahead, sums);
    }
    sums_of<kRows * kWeights>(&sums[0][0], out);
  }

 private:
  static constexpr std::int64_t kLineBytes = kForm == ExactForm::kBytes ? 32 : 16;
  static constexpr std::int64_t kScalesOfLine = kForm == ExactForm::kHalfBytesInGroupsOf16 ? 2 : 1;

  /// Makes tables of the 16 products of codes with a scale, in bfloat16: two a register. Half bytes have
  /// those of weights 2 i and 2 i + 1 in tables[2 i]; in groups of 16, those of a line's two scales.
  /// 8-bit codes have the scale itself. `left` columns are left.
  template <std::int64_t kWeights>
  SLUICE_TILES __attribute__((always_inline)) inline void make_tables(const float* scale, std::int64_t stride,
                                                                      std::int64_t left,
                                                                      __m512i (&tables)[kWeights]) const {
    if constexpr (kForm == ExactForm::kBytes) {
      for (std::int64_t w = 0; w < kWeights; ++w)
        tables[w] = _mm512_castps_si512(_mm512_set1_ps(scale[w * stride]));
      return;
    }
    const __m512 numbers = _mm512_loadu_ps(numbers_.data());
    if constexpr (kForm == ExactForm::kHalfBytesInGroupsOf16) {
      for (std::int64_t w = 0; w < kWeights; ++w) {
        const float* const of_row = scale + w * stride;
        tables[w] = both(_mm512_mul_ps(numbers, _mm512_set1_ps(of_row[0])),
                         _mm512_mul_ps(numbers, _mm512_set1_ps(left > kLine / 2 ? of_row[1] : 0)));
      }
    } else {
      for (std::int64_t w = 0; w < kWeights; w += 2) {
        const float* const of_row = scale + w * stride;
        tables[w] = both(_mm512_mul_ps(numbers, _mm512_set1_ps(of_row[0])),
                         _mm512_mul_ps(numbers, _mm512_set1_ps(of_row[w + 1 < kWeights ? stride : 0])));
      }
    }
  }
  SLUICE_TILES static __m512i both(__m512 lower, __m512 upper) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(upper, lower));
  }

  /// The numbers of a line of weight w, of which `mask` has a bit for each byte of codes.
  template <bool kWhole>
  SLUICE_TILES __attribute__((always_inline)) static inline __m512i line_of(const std::byte* codes,
                                                                            const __m512i* tables,
                                                                            std::int64_t w,
                                                                            std::uint32_t mask) {
    const auto read = [=](std::int64_t part) SLUICE_TILES {
      return kWhole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes) + part)
                    : _mm_maskz_loadu_epi8(static_cast<__mmask16>(mask >> (16 * part)), codes + 16 * part);
    };
    if constexpr (kForm == ExactForm::kBytes) {
      const __m512 scale = _mm512_castsi512_ps(tables[w]);
      return both(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(read(0))), scale),
                  _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(read(1))), scale));
    } else {
      // The lowest 4 bits of each word are a code, and bit 4 chooses a table; those above are not looked at.
      const __m512i bytes = _mm512_cvtepu8_epi32(read(0)), shifted = _mm512_slli_epi32(bytes, 12);
      const __m512i bit = _mm512_set1_epi32(0x00100010);
      if constexpr (kForm == ExactForm::kHalfBytesInGroupsOf16) {
        const __m512i cleared = _mm512_ternarylogic_epi32(bytes, shifted, bit, 0x54);
        return _mm512_permutexvar_epi16(_mm512_mask_or_epi32(cleared, 0xff00, cleared, bit), tables[w]);
      } else {
        return _mm512_permutexvar_epi16(w % 2 == 0 ? _mm512_ternarylogic_epi32(bytes, shifted, bit, 0x54)
                                                   : _mm512_ternarylogic_epi32(bytes, shifted, bit, 0xfe),
                                        tables[w - w % 2]);
      }
    }
  }

  /// Adds the products of a line, or of the `columns` that are left of one.
  template <std::int64_t kRows, std::int64_t kWeights, bool kWhole>
  SLUICE_TILES __attribute__((always_inline)) inline void add_line(
      const std::uint16_t* rows, const std::byte* codes, std::int64_t row_bytes, std::int64_t columns,
      const __m512i (&tables)[kWeights], CodesAhead& ahead, Lanes (&sums)[kRows][kWeights]) const {
    const std::uint32_t mask = tiles::lowest_bits(columns * kLineBytes / kLine);
    __m512i lines[kWeights];
    for (std::int64_t w = 0; w < kWeights; ++w) {
      lines[w] = line_of<kWhole>(codes + w * row_bytes, tables, w, mask);
      ahead.fetch(kLineBytes);
    }
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::uint16_t* const from = rows + r * rows_.stride;
      const __m512i row =
          kWhole ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi16(tiles::lowest_bits(columns), from);
      for (std::int64_t w = 0; w < kWeights; ++w)
        sums[r][w] = _mm512_dpbf16_ps(sums[r][w], reinterpret_cast<__m512bh>(row),
                                      reinterpret_cast<__m512bh>(lines[w]));
    }
  }

  std::int64_t lines_per_scale_;
  std::array<float, 16> numbers_{};
};

}  // namespace sluice::ops::cpu

SLUICE_INTRINSICS_END
#endif

#ifdef SLUICE_CLONES
#include <immintrin.h>

#define SLUICE_EXACT_AVX2 __attribute__((target("avx2,fma")))

SLUICE_INTRINSICS_BEGIN

namespace sluice::ops::cpu {

/// Products with half bytes by AVX2, in the order of the loop over bfloat16 weights that is compiled for it.
class Avx2ExactRows : public RowsOfExact {
 public:
  Avx2ExactRows(const DenseRows<at::BFloat16>& rows, const Encoding& encoding)
      : RowsOfExact(rows),
        numbers_(numbers_of(encoding.codes)),
        lines_per_scale_(lines_of_scale(encoding)),
        padded_(divide_up(encoding.columns, kLine) * kLine),
        floats_(static_cast<std::size_t>(rows.count * padded_)) {
    for (std::int64_t r = 0; r < rows.count; ++r)
      for (std::int64_t i = 0; i < encoding.columns; ++i)
        floats_[static_cast<std::size_t>(r * padded_ + i - i % kLine + i % 2 * kLanes + i % kLine / 2)] =
            kernel::load(rows.data[r * rows.stride + i]);
  }

  template <std::int64_t kRows, std::int64_t kWeights>
  SLUICE_EXACT_AVX2 void multiply(std::int64_t first, const CodedTile& weights, float* out) const {
    if (!suit_vectors(weights.scales, kWeights * weights.stride))
      return multiply_numbers<kRows, kWeights>(first, weights, out);
    __m256 sums[kRows][kWeights][2];
    for (auto& of_row : sums)
      for (auto& of_weight : of_row) of_weight[0] = of_weight[1] = _mm256_setzero_ps();
    const std::int64_t row_bytes = weights.row_bytes, stride = weights.stride, padded = padded_;
    const std::byte* codes = weights.rows.codes;
    const float *scale = weights.scales, *row = floats_.data() + first * padded;
    CodesAhead ahead(weights, kWeights);
    Table tables[kWeights];
    std::int64_t lines_left = 0;
    for (std::int64_t left = weights.columns(); left > 0; left -= kLine, row += kLine, codes += kLine / 2) {
      if (lines_left == 0) {
        for (std::int64_t w = 0; w < kWeights; ++w) make_table(scale[w * stride], tables[w]);
        ++scale;
        lines_left = lines_per_scale_;
      }
      --lines_left;
      for (std::int64_t w = 0; w < kWeights; ++w) {
        __m256 line[4];
        look_up(codes + w * row_bytes, left, tables[w], line);
        ahead.fetch(kLine / 2);
        for (std::int64_t r = 0; r < kRows; ++r)
          for (std::int64_t part = 0; part < 4; ++part)
            sums[r][w][part % 2] = _mm256_fmadd_ps(_mm256_loadu_ps(row + r * padded + part * 8), line[part],
                                                   sums[r][w][part % 2]);
      }
    }
    Lanes lanes[kRows * kWeights];
    std::memcpy(lanes, sums, sizeof lanes);
    sums_of<kRows * kWeights>(lanes, out);
  }

 private:
  /// The products of 16 codes with a scale, in bfloat16: lower and upper bytes, each twice.
  struct Table {
    __m256i lower, upper;
  };

  /// Rounds to the bits of bfloat16 in the upper half of each lane.
  SLUICE_EXACT_AVX2 static __m256i rounded(const __m256& values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7fff)));
  }
  SLUICE_EXACT_AVX2 void make_table(float scale, Table& table) const {
    const __m256 each = _mm256_set1_ps(scale);
    const __m256i low = rounded(_mm256_mul_ps(_mm256_loadu_ps(numbers_.data()), each));
    const __m256i high = rounded(_mm256_mul_ps(_mm256_loadu_ps(numbers_.data() + 8), each));
    // Of each 16 bytes, the third bytes of four lanes, then the fourth ones; those of `high` 8 bytes on.
    const __m256i first = _mm256_setr_epi8(2, 6, 10, 14, 3, 7, 11, 15, -1, -1, -1, -1, -1, -1, -1, -1, 2, 6,
                                           10, 14, 3, 7, 11, 15, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i second = _mm256_permute4x64_epi64(first, 0xb1);
    const __m256i both = _mm256_or_si256(_mm256_shuffle_epi8(low, first), _mm256_shuffle_epi8(high, second));
    table.lower = _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(0, 4, 2, 6, 0, 4, 2, 6));
    table.upper = _mm256_permutevar8x32_epi32(both, _mm256_setr_epi32(1, 5, 3, 7, 1, 5, 3, 7));
  }
  /// The numbers of a line, or of the `left` columns of one: those of even columns, then those of odd ones.
  SLUICE_EXACT_AVX2 static void look_up(const std::byte* codes, std::int64_t left, const Table& table,
                                        __m256 (&line)[4]) {
    __m128i bytes = _mm_setzero_si128();
    if (left >= kLine)
      bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    else
      std::memcpy(&bytes, codes, static_cast<std::size_t>(left / 2));
    // Bytes 0-3 and 8-11 in the lower half, the others in the upper; of each the lower codes, then the upper.
    const __m256i order = _mm256_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12,
                                           13, 14, 15, 4, 5, 6, 7, 12, 13, 14, 15);
    const __m256i places =
        _mm256_and_si256(_mm256_srlv_epi64(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), order),
                                           _mm256_setr_epi64x(0, 4, 0, 4)),
                         _mm256_set1_epi8(15));
    const __m256i lower = _mm256_shuffle_epi8(table.lower, places);
    const __m256i upper = _mm256_shuffle_epi8(table.upper, places), zero = _mm256_setzero_si256();
    const __m256i even = _mm256_unpacklo_epi8(lower, upper), odd = _mm256_unpackhi_epi8(lower, upper);
    line[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, even));
    line[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, even));
    line[2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, odd));
    line[3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, odd));
  }

  std::array<float, 16> numbers_;
  std::int64_t lines_per_scale_, padded_;
  std::vector<float> floats_;
};

}  // namespace sluice::ops::cpu

SLUICE_INTRINSICS_END
#endif
