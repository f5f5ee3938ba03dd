#include "encoding/dequantise.hpp"

#include "base/convert_avx2.hpp"
#include "base/error.hpp"
#include "base/round.hpp"
#include "encoding/vector_rows.hpp"

#include <array>
#include <cstring>
#include <vector>

namespace sluice {
namespace {

using encoding::BFloat16Out;
using encoding::Float32Out;
using encoding::Float4Code;
using encoding::Float8Code;
using encoding::Int4Code;
using encoding::Int8Code;
using encoding::NormalFloat4Code;
using encoding::RowPart;

using RowFunction = void (*)(const RowPart&);

template <class Code, class Out>
RowFunction function_of(VectorLevel level) {
#if defined(__x86_64__)
  if (level == VectorLevel::kAvx512) return encoding::dequantise_row_avx512<Code, Out>;
  if (level == VectorLevel::kAvx2) return encoding::dequantise_row_avx2<Code, Out>;
#endif
  static_cast<void>(level);
  return encoding::dequantise_row<Code, Out>;
}

template <class Code>
RowFunction function_of(DType to, VectorLevel level) {
  return to == DType::kFloat32 ? function_of<Code, Float32Out>(level) : function_of<Code, BFloat16Out>(level);
}

RowFunction function_of(Codes codes, DType to, VectorLevel level) {
  switch (codes) {
    case Codes::kFloat8E4M3:
      return function_of<Float8Code>(to, level);
    case Codes::kInt4:
      return function_of<Int4Code>(to, level);
    case Codes::kInt8:
      return function_of<Int8Code>(to, level);
    case Codes::kNormalFloat4:
      return function_of<NormalFloat4Code>(to, level);
    case Codes::kFloat4E2M1:
    case Codes::kBFloat16:
      break;
  }
  return function_of<Float4Code>(to, level);
}

VectorLevel find_vector_level() {
#if defined(__x86_64__)
  const bool has_avx2 = avx2::is_available();
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return VectorLevel::kAvx512;
  if (has_avx2) return VectorLevel::kAvx2;
#endif
  return VectorLevel::kPlain;
}

/// The number 2^(byte - 127), subnormal for byte 0.
float power_of_two(std::uint8_t byte) {
  if (byte == 255) return std::bit_cast<float>(0x7fc00000U);
  return std::bit_cast<float>(byte == 0 ? 0x00400000U : static_cast<std::uint32_t>(byte) << 23);
}

void widen_scales(DType type, const std::byte* scales, std::int64_t count, float* out) {
  switch (type) {
    case DType::kFloat8E8M0:
    case DType::kUInt8:
      for (std::int64_t i = 0; i < count; ++i)
        out[i] = power_of_two(std::to_integer<std::uint8_t>(scales[i]));
      return;
    case DType::kFloat8E4M3:
      for (std::int64_t i = 0; i < count; ++i) out[i] = Float8Code::value(scales, i);
      return;
    default:
      return convert_elements(scales, type, out, DType::kFloat32, count);
  }
}

}  // namespace

VectorLevel best_vector_level() {
  static const VectorLevel level = find_vector_level();
  return level;
}

const std::array<float, 16>& numbers_of(Codes codes) {
  SLUICE_ASSERT(bits_of(codes) == 4, "codes of {} bits have no table", bits_of(codes));
  return codes == Codes::kInt4           ? Int4Code::kNumbers
         : codes == Codes::kNormalFloat4 ? NormalFloat4Code::kNumbers
                                         : Float4Code::kNumbers;
}

void read_scales(const Encoding& encoding, const std::byte* scales, std::int64_t count, float* out) {
  widen_scales(encoding.scale_type, scales, count, out);
  const TensorScale& of_tensor = encoding.tensor_scale;
  if (of_tensor.is_one()) return;
  for (std::int64_t i = 0; i < count; ++i) out[i] = out[i] * of_tensor.factor / of_tensor.divisor;
}

void dequantise(const Encoding& encoding, Range elements, const std::byte* codes, const std::byte* scales,
                DType to, std::byte* target, VectorLevel level) {
  SLUICE_ASSERT(to == DType::kBFloat16 || to == DType::kFloat32, "quantised weights cannot become {}",
                name_of(to));
  if (encoding.codes == Codes::kBFloat16)
    return convert_elements(codes, DType::kBFloat16, target, to, elements.count());
  const RowFunction row_function = function_of(encoding.codes, to, level);
  constexpr std::int64_t kBlocks = 128;  // number of blocks whose scales are converted to float32 at a time
  std::array<float, kBlocks + 1> widened{};  // elements from within a block reach into one more
  const std::int64_t first_scale = encoding.scales_of(elements).begin, grid_columns = encoding.grid_columns();
  std::int64_t row = elements.begin / encoding.columns, column = elements.begin % encoding.columns;
  for (std::int64_t at = elements.begin; at < elements.end;) {
    const std::int64_t block = column / encoding.block_columns, phase = column % encoding.block_columns;
    const std::int64_t of_row = std::min(elements.end - at, encoding.columns - column);
    const std::int64_t count = std::min(of_row, kBlocks * encoding.block_columns);
    const std::int64_t scale = encoding.grid_row_of(row) * grid_columns + block;
    read_scales(encoding, scales + encoding.scale_bytes({first_scale, scale}),
                divide_up(phase + count, encoding.block_columns), widened.data());
    const std::int64_t done = at - elements.begin;
    row_function({codes + encoding.code_bytes(done), widened.data(), target + done * size_of(to), phase,
                  count, encoding.block_columns});
    at += count;
    column += count;
    if (column == encoding.columns) {
      column = 0;
      ++row;
    }
  }
}

void dequantise_block(const CodedRows& rows, Range of, Range columns, DType to, std::byte* target,
                      std::int64_t stride) {
  const Encoding& encoding = *rows.encoding;
  const std::int64_t size = size_of(to), row_bytes = encoding.code_bytes(encoding.columns);
  const std::byte* codes = rows.codes + of.begin * row_bytes + encoding.code_bytes(columns.begin);
  if (encoding.codes == Codes::kBFloat16) {
    for (std::int64_t row = of.begin; row < of.end; ++row, codes += row_bytes, target += stride * size)
      convert_elements(codes, DType::kBFloat16, target, to, columns.count());
    return;
  }
  // The scales of all rows become floats together: one call for each row would take longer than its numbers.
  const Range blocks{columns.begin / encoding.block_columns, divide_up(columns.end, encoding.block_columns)};
  const std::int64_t row_scale_bytes = encoding.scale_bytes(blocks);
  std::vector<std::byte> stored(static_cast<std::size_t>(of.count() * row_scale_bytes));
  for (std::int64_t row = 0; row < of.count(); ++row) {
    const std::int64_t grid_row =
        encoding.grid_row_of(rows.row + of.begin + row) - encoding.grid_row_of(rows.row);
    const std::int64_t first = grid_row * encoding.grid_columns() + blocks.begin;
    std::memcpy(stored.data() + row * row_scale_bytes, rows.scales + encoding.scale_bytes({0, first}),
                static_cast<std::size_t>(row_scale_bytes));
  }
  std::vector<float> scales(static_cast<std::size_t>(of.count() * blocks.count()));
  read_scales(encoding, stored.data(), std::ssize(scales), scales.data());
  const RowFunction row_function = function_of(encoding.codes, to, best_vector_level());
  for (std::int64_t row = 0; row < of.count(); ++row, codes += row_bytes, target += stride * size)
    row_function({codes, scales.data() + row * blocks.count(), target, columns.begin % encoding.block_columns,
                  columns.count(), encoding.block_columns});
}

}  // namespace sluice
