#include "encoding/encoding.hpp"

#include "base/round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace sluice {

std::int64_t bits_of(Codes codes) {
  switch (codes) {
    case Codes::kBFloat16:
      return 16;
    case Codes::kFloat8E4M3:
    case Codes::kInt8:
      return 8;
    case Codes::kInt4:
    case Codes::kFloat4E2M1:
    case Codes::kNormalFloat4:
      break;
  }
  return 4;
}

std::int64_t Encoding::grid_rows() const { return divide_up(rows, block_rows); }

std::int64_t Encoding::grid_columns() const { return divide_up(columns, block_columns); }

std::int64_t Encoding::atom_elements() const {
  constexpr std::int64_t kWord = 8;  // number of 4-bit codes in an int32
  // Largest group that is not cut, in elements: a quarter of the smallest chunk.
  constexpr std::int64_t kLongest = 1024;
  if (bits_of(codes) >= 8) return 1;
  return block_columns <= kLongest ? block_columns : kWord;
}

Range Encoding::scales_of(Range elements) const {
  if (elements.count() <= 0 || codes == Codes::kBFloat16) return {};
  const std::int64_t first = elements.begin / columns;
  const std::int64_t last = (elements.end - 1) / columns;
  if (first < last) return {grid_row_of(first) * grid_columns(), (grid_row_of(last) + 1) * grid_columns()};
  const std::int64_t begin = grid_row_of(first) * grid_columns();
  return {begin + elements.begin % columns / block_columns,
          begin + (elements.end - 1) % columns / block_columns + 1};
}

void Encoding::read_scales(Range scales,
                           const std::function<void(int, std::int64_t, std::int64_t)>& read) const {
  if (shared.stride == 0)
    return read(scale_file, scale_begin + scale_bytes({0, scales.begin}), scale_bytes(scales));
  const std::int64_t in_row = grid_columns();
  for (std::int64_t at = scales.begin; at < scales.end;) {
    const std::int64_t row = at / in_row, next = std::min((row + 1) * in_row, scales.end);
    const std::int64_t matrix = row / grid_rows(), within_row = scale_bytes({row * in_row, at});
    if (row % grid_rows() == 0)
      read(shared.file, shared.begin + matrix * shared.stride + within_row, scale_bytes({at, next}));
    else
      read(scale_file, scale_begin + scale_bytes({0, (row - matrix - 1) * in_row}) + within_row,
           scale_bytes({at, next}));
    at = next;
  }
}

std::string Encoding::text() const {
  if (codes == Codes::kInt4) return fmt::format("int4 in groups of {}", block_columns);
  if (codes == Codes::kFloat4E2M1)
    return fmt::format("{} in groups of {}", scale_type == DType::kFloat8E4M3 ? "nvfp4" : "mxfp4",
                       block_columns);
  if (codes == Codes::kBFloat16) return std::string(name_of(DType::kBFloat16));
  if (codes == Codes::kNormalFloat4) return fmt::format("nf4 in groups of {}", block_columns);
  const std::string_view type = codes == Codes::kInt8 ? "int8" : name_of(DType::kFloat8E4M3);
  if (block_columns < columns || (block_rows > 1 && block_rows < rows))
    return fmt::format("{} in blocks of {} x {}", type, block_rows, block_columns);
  return fmt::format("{} by {}", type, block_rows == 1 && rows > 1 ? "row" : "tensor");
}

EncodingNumbers numbers_of(const Encoding& encoding) {
  return {static_cast<std::int64_t>(encoding.codes),
          static_cast<std::int64_t>(encoding.scale_type),
          encoding.scale_file,
          encoding.scale_begin,
          encoding.scale_count,
          encoding.rows,
          encoding.columns,
          encoding.block_rows,
          encoding.block_columns,
          std::bit_cast<std::int32_t>(encoding.tensor_scale.factor),
          std::bit_cast<std::int32_t>(encoding.tensor_scale.divisor),
          encoding.shared.file,
          encoding.shared.begin,
          encoding.shared.stride};
}

Encoding encoding_from(const EncodingNumbers& numbers) {
  return {static_cast<Codes>(numbers[0]),
          static_cast<DType>(numbers[1]),
          static_cast<int>(numbers[2]),
          numbers[3],
          numbers[4],
          numbers[5],
          numbers[6],
          numbers[7],
          numbers[8],
          {std::bit_cast<float>(static_cast<std::int32_t>(numbers[9])),
           std::bit_cast<float>(static_cast<std::int32_t>(numbers[10]))},
          {static_cast<int>(numbers[11]), numbers[12], numbers[13]}};
}

}  // namespace sluice
