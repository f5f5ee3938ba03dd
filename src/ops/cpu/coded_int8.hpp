// Products of few rows with codes as integers of 8 bits. Private to coded_rows.cpp.
//
// A unit is 32 columns that share a scale, or 16. A row x of the left side is rounded in units to x = d q with
// q from -127 to 127 and d = largest / 127; codes are integers c. A dot product is the sum over units of
// scale d (sum of c q); where an instruction wants c without sign, c + offset is multiplied, and scale d
// offset (sum of q) taken off. The integers of a unit are summed exactly.
#pragma once

#include "ops/cpu/coded_tile.hpp"
#include "ops/cpu/few_rows.hpp"
#include "ops/cpu/lanes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>

#define SLUICE_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")))
#define SLUICE_INT8_AVX2 __attribute__((target("avx2,fma")))

SLUICE_INTRINSICS_BEGIN

namespace sluice::ops::cpu {

/// Codes as integers: number = factor * c, with c + offset not below 0.
template <Codes kCodes>
struct Integers {
  static constexpr bool kIsByte = kCodes == Codes::kInt8;
  static constexpr float kFactor = kCodes == Codes::kFloat4E2M1     ? 0.5F
                                   : kCodes == Codes::kNormalFloat4 ? 1.0F / 127
                                                                    : 1.0F;
  static constexpr int kOffset = kCodes == Codes::kInt4 ? 8 : kCodes == Codes::kFloat4E2M1 ? 12 : 128;
  /// Whether pairs of products of c + offset fit 16 bits, two pairs together.
  static constexpr bool kIsSmall = kOffset < 128;
};

/// Rows of a product's left side as integers, in the order of the bytes of codes: in lines of 64 bytes of
/// codes; of half bytes the lower ones first, those of 64 columns, then the upper ones.
class RoundedRows {
 public:
  static constexpr std::int64_t kLineBytes = 64;

  /// `unit` columns have a scale, of the row and of codes alike.
  template <class T>
  RoundedRows(const DenseRows<T>& rows, std::int64_t depth, std::int64_t unit, bool has_half_bytes,
              float factor, int offset)
      : unit_(unit),
        columns_(has_half_bytes ? 2 * kLineBytes : kLineBytes),
        lines_(divide_up(depth, columns_)),
        integers_(static_cast<std::size_t>(rows.count * lines_ * columns_)),
        factors_(static_cast<std::size_t>(rows.count * lines_ * kLanes)),
        units_(divide_up(lines_ * (columns_ / unit_), kLanes) * kLanes),
        offsets_(static_cast<std::size_t>(rows.count * units_)) {
    std::vector<float> row(static_cast<std::size_t>(lines_ * columns_));
    for (std::int64_t r = 0; r < rows.count; ++r) {
      kernel::load_row(rows.data + r * rows.stride, depth, row.data());
      for (std::int64_t u = 0; u * unit < depth; ++u) round_unit(row.data() + u * unit, r, u, factor, offset);
      lay_out(row.data(), has_half_bytes, integers_.data() + r * lines_ * columns_);
    }
  }

  [[nodiscard]] std::int64_t lines() const { return lines_; }
  /// Units of a line; units of a row, padded to whole lines and a multiple of kLanes.
  [[nodiscard]] std::int64_t units_of_line() const { return columns_ / unit_; }
  [[nodiscard]] std::int64_t units() const { return units_; }
  [[nodiscard]] const std::int8_t* integers(std::int64_t row, std::int64_t line) const {
    return integers_.data() + (row * lines_ + line) * columns_;
  }
  /// Factor of each lane of four bytes of codes of a line.
  [[nodiscard]] const float* factors(std::int64_t row, std::int64_t line) const {
    return factors_.data() + (row * lines_ + line) * kLanes;
  }
  /// What an offset adds to each unit, before the unit's scale.
  [[nodiscard]] const float* offsets(std::int64_t row) const { return offsets_.data() + row * units(); }
  /// Unit of a line that each lane belongs to.
  [[nodiscard]] std::array<std::int32_t, kLanes> units_of_lanes() const {
    std::array<std::int32_t, kLanes> of_lanes{};
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      of_lanes[lane] = static_cast<std::int32_t>(static_cast<std::int64_t>(lane) * units_of_line() / kLanes);
    return of_lanes;
  }

  /// The rows of codes with a scale for each unit, which lie in `scales`, as for other rows before.
  CodedTile tile_of(const CodedRows& rows, std::vector<float>& scales) const {
    const std::int64_t columns = rows.encoding->columns, stored = rows.encoding->grid_columns();
    const std::int64_t all = rows.count * units() + kLanes;
    if (std::ssize(scales) < all + rows.count * stored)
      scales.assign(static_cast<std::size_t>(all + rows.count * stored), 0.0F);
    float* const read = scales.data() + scales.size() - rows.count * stored;
    read_scales(*rows.encoding, rows.scales, rows.count * stored, read);
    const std::int64_t of_scale =
        stored == 1 ? divide_up(columns, unit_) : rows.encoding->block_columns / unit_;
    for (std::int64_t r = 0; r < rows.count; ++r)
      spread(read + r * stored, of_scale, divide_up(columns, unit_), scales.data() + r * units());
    return {rows, scales.data(), units()};
  }

 private:
  /// Rounds the unit's numbers to integers. A unit with NaN or an infinity has a factor of NaN.
  void round_unit(float* unit, std::int64_t row, std::int64_t number, float factor, int offset) {
    float largest = 0, nothing = 0;
    for (std::int64_t i = 0; i < unit_; ++i) {
      largest = std::max(largest, std::abs(unit[i]));
      nothing += 0 * unit[i];
    }
    const float each = largest / 127 + nothing;
    const float per_number = largest > 0 ? 127 / largest : 0;
    float sum = 0;
    for (std::int64_t i = 0; i < unit_; ++i) {
      const float shifted = unit[i] * per_number + 12582912.0F;  // Adding 1.5 * 2^23 rounds to integers.
      sum += unit[i] = shifted - 12582912.0F;
    }
    const std::int64_t lanes = kLanes / units_of_line();
    std::fill_n(factors_.begin() + row * lines_ * kLanes + number * lanes, lanes, each * factor);
    offsets_[static_cast<std::size_t>(row * units() + number)] =
        each * factor * static_cast<float>(offset) * sum;
  }

  /// Repeats each number for as many of the units as it is the scale of.
  static void spread(const float* from, std::int64_t of_scale, std::int64_t units, float* to) {
    if (of_scale == 1) return void(std::copy_n(from, units, to));
    if (of_scale == 2 && units % 2 == 0) {
      for (std::int64_t u = 0; u < units / 2; ++u) to[2 * u] = to[2 * u + 1] = from[u];
      return;
    }
    for (std::int64_t u = 0; u < units; u += of_scale, ++from)
      std::fill_n(to + u, std::min(of_scale, units - u), *from);
  }

  void lay_out(const float* row, bool has_half_bytes, std::int8_t* out) const {
    const auto integer = [](float value) {
      return value == value ? static_cast<std::int8_t>(static_cast<int>(value)) : std::int8_t{0};
    };
    for (std::int64_t line = 0; line < lines_; ++line, row += columns_, out += columns_)
      for (std::int64_t i = 0; i < kLineBytes; ++i) {
        if (!has_half_bytes) {
          out[i] = integer(row[i]);
        } else {
          out[i] = integer(row[2 * i]);
          out[i + kLineBytes] = integer(row[2 * i + 1]);
        }
      }
  }

  std::int64_t unit_, columns_, lines_;
  std::vector<std::int8_t> integers_;
  std::vector<float> factors_;
  std::int64_t units_;
  std::vector<float> offsets_;
};

/// The codes of kWeights rows, line by line; the last line is padded with zeros.
template <std::int64_t kWeights>
class CodeLines {
 public:
  explicit CodeLines(const CodedTile& weights)
      : codes_(weights.rows.codes),
        row_bytes_(weights.row_bytes),
        whole_(row_bytes_ / RoundedRows::kLineBytes) {
    const std::int64_t done = whole_ * RoundedRows::kLineBytes;
    for (std::int64_t w = 0; w < kWeights && done < row_bytes_; ++w)
      std::memcpy(rest_[w], codes_ + w * row_bytes_ + done, static_cast<std::size_t>(row_bytes_ - done));
  }
  [[nodiscard]] const std::byte* line(std::int64_t w, std::int64_t line) const {
    return line == whole_ ? rest_[w] : codes_ + w * row_bytes_ + line * RoundedRows::kLineBytes;
  }

 private:
  const std::byte* codes_;
  std::int64_t row_bytes_, whole_;
  std::byte rest_[kWeights][RoundedRows::kLineBytes] = {};
};

/// The integers of all 16 codes of half a byte, four times, with an offset added.
template <Codes kCodes>
std::array<std::int8_t, 64> table_of(int offset) {
  std::array<std::int8_t, 64> table{};
  const std::array<float, 16>& numbers = numbers_of(kCodes);
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<std::int8_t>(
        static_cast<int>(std::lround(numbers[i % 16] / Integers<kCodes>::kFactor)) + offset);
  return table;
}

/// Products with vectors of 64 bytes (VNNI), which multiply integers without sign by such with one.
template <Codes kCodes>
class VnniRows : public RoundedRows {
  using Form = Integers<kCodes>;

 public:
  template <class T>
  VnniRows(const DenseRows<T>& rows, std::int64_t depth, std::int64_t unit)
      : RoundedRows(rows, depth, unit, !Form::kIsByte, Form::kFactor, Form::kOffset) {
    if constexpr (!Form::kIsByte) table_ = table_of<kCodes>(Form::kOffset);
  }

  template <std::int64_t kRows, std::int64_t kWeights>
  SLUICE_VNNI void multiply(std::int64_t first, const CodedTile& weights, float* out) const {
    Lanes sums[kRows][kWeights];
    for (auto& of_row : sums)
      for (Lanes& sum : of_row) sum = Lanes{};
    const CodeLines<kWeights> codes(weights);
    CodesAhead ahead(weights, kWeights);
    const __m512i lanes = _mm512_loadu_si512(lanes_.data()), table = _mm512_loadu_si512(table_.data());
    const std::int64_t all_lines = lines(), units_of_one = units_of_line(), stride = weights.stride;
    const float* scale = weights.scales;
    for (std::int64_t line = 0; line < all_lines; ++line, scale += units_of_one) {
      __m512i lower[kWeights], upper[kWeights];
      __m512 scales[kWeights];
      for (std::int64_t w = 0; w < kWeights; ++w) {
        read(_mm512_loadu_si512(codes.line(w, line)), table, lower[w], upper[w]);
        ahead.fetch(kLineBytes);
        const __m256 units = _mm256_loadu_ps(scale + w * stride);
        scales[w] = _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(units));
      }
      for (std::int64_t r = 0; r < kRows; ++r) {
        const std::int8_t* const row = integers(first + r, line);
        const __m512 factors = _mm512_loadu_ps(this->factors(first + r, line));
        for (std::int64_t w = 0; w < kWeights; ++w) {
          __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), lower[w], _mm512_loadu_si512(row));
          if constexpr (!Form::kIsByte)
            sum = _mm512_dpbusd_epi32(sum, upper[w], _mm512_loadu_si512(row + kLineBytes));
          sums[r][w] =
              _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), factors), scales[w], sums[r][w]);
        }
      }
    }
    const std::int64_t all_units = units();
    for (std::int64_t unit = 0; unit < all_units; unit += kLanes)
      for (std::int64_t w = 0; w < kWeights; ++w) {
        const __m512 scales = _mm512_loadu_ps(weights.scales + w * weights.stride + unit);
        for (std::int64_t r = 0; r < kRows; ++r)
          sums[r][w] = _mm512_fnmadd_ps(_mm512_loadu_ps(offsets(first + r) + unit), scales, sums[r][w]);
      }
    sums_of<kRows * kWeights>(&sums[0][0], out);
  }

 private:
  /// Integers of a line of codes; of half bytes the lower and the upper ones.
  SLUICE_VNNI static void read(const __m512i& codes, const __m512i& table, __m512i& lower, __m512i& upper) {
    if constexpr (Form::kIsByte) {
      lower = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
    } else {
      const __m512i bits = _mm512_set1_epi8(15);
      lower = _mm512_and_si512(codes, bits);
      upper = _mm512_and_si512(_mm512_srli_epi16(codes, 4), bits);
      if constexpr (kCodes == Codes::kInt4) return;
      lower = _mm512_shuffle_epi8(table, lower);
      upper = _mm512_shuffle_epi8(table, upper);
    }
  }

  std::array<std::int32_t, kLanes> lanes_ = units_of_lanes();
  std::array<std::int8_t, 64> table_{};
};

/// Products with vectors of 32 bytes (AVX2), whose sums of pairs have 16 bits: larger integers are multiplied
/// without their sign by such that have taken it over.
template <Codes kCodes>
class Avx2Rows : public RoundedRows {
  using Form = Integers<kCodes>;
  static constexpr int kOffset = Form::kIsSmall ? Form::kOffset : 0;

 public:
  template <class T>
  Avx2Rows(const DenseRows<T>& rows, std::int64_t depth, std::int64_t unit)
      : RoundedRows(rows, depth, unit, !Form::kIsByte, Form::kFactor, kOffset) {
    if constexpr (!Form::kIsByte) table_ = table_of<kCodes>(kOffset);
  }

  template <std::int64_t kRows, std::int64_t kWeights>
  SLUICE_INT8_AVX2 void multiply(std::int64_t first, const CodedTile& weights, float* out) const {
    __m256 sums[kRows][kWeights][2];
    for (auto& of_row : sums)
      for (auto& of_weight : of_row) of_weight[0] = of_weight[1] = _mm256_setzero_ps();
    const CodeLines<kWeights> codes(weights);
    CodesAhead ahead(weights, kWeights);
    const __m256i table = load(table_.data());
    const std::int64_t all_lines = lines(), units_of_one = units_of_line(), stride = weights.stride;
    const float* scale = weights.scales;
    for (std::int64_t line = 0; line < all_lines; ++line, scale += units_of_one)
      for (std::int64_t half = 0; half < 2; ++half) {
        const __m256i lanes = load(lanes_.data() + half * 8);
        for (std::int64_t w = 0; w < kWeights; ++w) {
          const __m256i both = load(codes.line(w, line) + half * 32);
          ahead.fetch(kLineBytes / 2);
          const __m256 scales = _mm256_permutevar8x32_ps(_mm256_loadu_ps(scale + w * stride), lanes);
          for (std::int64_t r = 0; r < kRows; ++r) {
            const std::int8_t* const row = integers(first + r, line) + half * 32;
            const __m256 factors = _mm256_loadu_ps(this->factors(first + r, line) + half * 8);
            const __m256 products = _mm256_mul_ps(_mm256_cvtepi32_ps(dot(both, table, row)), factors);
            sums[r][w][half] = _mm256_fmadd_ps(products, scales, sums[r][w][half]);
          }
        }
      }
    const std::int64_t all_units = units();
    for (std::int64_t unit = 0; kOffset > 0 && unit < all_units; unit += kLanes / 2)
      for (std::int64_t w = 0; w < kWeights; ++w) {
        const __m256 scales = _mm256_loadu_ps(weights.scales + w * weights.stride + unit);
        for (std::int64_t r = 0; r < kRows; ++r) {
          __m256& sum = sums[r][w][unit / 8 % 2];
          sum = _mm256_fnmadd_ps(_mm256_loadu_ps(offsets(first + r) + unit), scales, sum);
        }
      }
    Lanes lanes[kRows * kWeights];
    std::memcpy(lanes, sums, sizeof lanes);
    sums_of<kRows * kWeights>(lanes, out);
  }

 private:
  SLUICE_INT8_AVX2 static __m256i load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  /// Sums of the products of four bytes each, or of four pairs of half bytes.
  SLUICE_INT8_AVX2 static __m256i dot(const __m256i& codes, const __m256i& table, const std::int8_t* row) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (Form::kIsByte) {
      return _mm256_madd_epi16(product(codes, load(row)), ones);
    } else {
      const __m256i bits = _mm256_set1_epi8(15);
      __m256i lower = _mm256_and_si256(codes, bits);
      __m256i upper = _mm256_and_si256(_mm256_srli_epi16(codes, 4), bits);
      if constexpr (kCodes != Codes::kInt4) {
        lower = _mm256_shuffle_epi8(table, lower);
        upper = _mm256_shuffle_epi8(table, upper);
      }
      const __m256i even = product(lower, load(row)), odd = product(upper, load(row + kLineBytes));
      if constexpr (Form::kIsSmall) return _mm256_madd_epi16(_mm256_add_epi16(even, odd), ones);
      return _mm256_add_epi32(_mm256_madd_epi16(even, ones), _mm256_madd_epi16(odd, ones));
    }
  }
  /// Sums of the products of pairs of bytes.
  SLUICE_INT8_AVX2 static __m256i product(const __m256i& codes, const __m256i& row) {
    if constexpr (Form::kIsSmall) return _mm256_maddubs_epi16(codes, row);
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(row, codes));
  }

  std::array<std::int32_t, kLanes> lanes_ = units_of_lanes();
  std::array<std::int8_t, 64> table_{};
};

}  // namespace sluice::ops::cpu

SLUICE_INTRINSICS_END
#endif
