// Encoding: how a published tensor of quantised weights is stored, with codes in one place, scales in
// another, and the numbers that both stand for.
#pragma once

#include "base/dtype.hpp"
#include "base/range.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// Format of the code of one element.
enum class Codes : std::uint8_t {
  /// One byte: sign, 4 bits of exponent, 3 of mantissa; 0x7f and 0xff are NaN, there is no infinity.
  kFloat8E4M3,
  kInt4,  ///< half a byte, the lower half first: an integer from -8 to 7, plus 8
  /// Half a byte, the lower half first: sign, 2 bits of exponent, 1 of mantissa; no NaN or infinity.
  kFloat4E2M1,
  kBFloat16,  ///< two bytes: the element itself, without a scale
  kInt8,      ///< one byte: an integer from -128 to 127
  /// Half a byte, the lower half first: index in the table of NF4, 16 numbers from -1 to 1 that QLoRA
  /// (arXiv:2305.14314) takes from quantiles of the normal distribution.
  kNormalFloat4,
};
[[nodiscard]] std::int64_t bits_of(Codes codes);

/// Number of consecutive elements of a row that share a scale, in MXFP4 and in NVFP4.
inline constexpr std::int64_t kMxfp4Group = 32, kNvfp4Group = 16;

/// Number by which all stored scales of a tensor are multiplied, or divided, in float32 before use:
/// ModelOpt's weight_scale_2, or compressed-tensors' weight_global_scale.
struct TensorScale {
  float factor = 1;
  float divisor = 1;

  [[nodiscard]] bool is_one() const { return factor == 1 && divisor == 1; }
  friend bool operator==(const TensorScale&, const TensorScale&) = default;
};

/// Scales of a tensor's matrices that lie among those of another tensor.
struct SharedScales {
  int file = 0;             ///< index of the checkpoint's file that holds them
  std::int64_t begin = 0;   ///< byte of it at which the row of the first matrix begins
  std::int64_t stride = 0;  ///< bytes from one matrix's row to the next one's; 0: there are none

  friend bool operator==(const SharedScales&, const SharedScales&) = default;
};

/// The codes of a tensor are row-major: matrices of `rows` x `columns` elements, one after the other. Blocks
/// of `block_rows` x `block_columns` elements of a matrix share a scale; those at its lower and right edge
/// may be smaller. Scales are a grid for each matrix, row-major too. An element is bfloat16(float32(code) *
/// float32(scale)): one float32 product, rounded once to nearest even. The scale is the stored one under
/// `tensor_scale`.
struct Encoding {
  Codes codes = Codes::kFloat8E4M3;
  /// Type of the scales: float32, bfloat16, float16, float8_e4m3fn, float8_e8m0fnu, or uint8 with the meaning
  /// of the latter.
  DType scale_type = DType::kFloat32;
  /// Index of the checkpoint's file that holds the scales, which may be another file than that of the codes.
  int scale_file = 0;
  std::int64_t scale_begin = 0;  ///< byte of the scales' file at which they begin
  std::int64_t scale_count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t block_rows = 0;
  std::int64_t block_columns = 0;
  TensorScale tensor_scale{};  ///< scale of the stored scales, which only NVFP4 has
  /// First row of the grid of each matrix, where a block reaches from another tensor into it; the others follow each
  /// other at scale_begin.
  SharedScales shared{};

  [[nodiscard]] std::int64_t grid_rows() const;
  /// Row of the grid with the scales of row `row` of the tensor, counted over all matrices.
  [[nodiscard]] std::int64_t grid_row_of(std::int64_t row) const {
    return row / rows * grid_rows() + row % rows / block_rows;
  }
  [[nodiscard]] std::int64_t grid_columns() const;
  /// Bytes of `count` codes; they must begin and end at whole bytes.
  [[nodiscard]] std::int64_t code_bytes(std::int64_t count) const { return count * bits_of(codes) / 8; }
  /// Number of codes at whose multiples a read may begin: a group of 4-bit codes is not cut, unless it is so
  /// long that only its words of 8 codes are kept whole.
  [[nodiscard]] std::int64_t atom_elements() const;
  /// Scales that elements [begin, end) need, as a range of all scales of the tensor; empty for no elements.
  [[nodiscard]] Range scales_of(Range elements) const;
  [[nodiscard]] std::int64_t scale_bytes(Range scales) const { return scales.count() * size_of(scale_type); }
  /// Bytes of all scales.
  [[nodiscard]] std::int64_t scale_bytes() const { return scale_count * size_of(scale_type); }
  /// Bytes of the scales that no other tensor has, which lie at scale_begin.
  [[nodiscard]] std::int64_t own_scale_bytes() const {
    return shared.stride == 0 ? scale_bytes() : scale_bytes() / grid_rows() * (grid_rows() - 1);
  }
  /// Calls read(file, byte, bytes) for the pieces of files in which scales [begin, end) lie, in the order of these.
  void read_scales(Range scales, const std::function<void(int, std::int64_t, std::int64_t)>& read) const;
  /// Encoding as text: "float8_e4m3fn in blocks of 128 x 128", "float8_e4m3fn by row", "float8_e4m3fn by
  /// tensor", "int4 in groups of 32", "mxfp4 in groups of 32", "nvfp4 in groups of 16", "bfloat16", "int8 by
  /// row", "nf4 in groups of 64".
  [[nodiscard]] std::string text() const;

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

/// All fields of an encoding as numbers, for a message or a digest, and back.
using EncodingNumbers = std::array<std::int64_t, 14>;
[[nodiscard]] EncodingNumbers numbers_of(const Encoding& encoding);
[[nodiscard]] Encoding encoding_from(const EncodingNumbers& numbers);

}  // namespace sluice
