#include "ops/cpu/products/operand.hpp"

#include "encoding/dequantise.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sluice::ops::cpu::products {

bool can_be_side(std::span<const CodedRows> codes) {
  return !codes.empty() && std::ranges::all_of(codes, [](const CodedRows& rows) {
    return rows.encoding->columns * bits_of(rows.encoding->codes) % 8 == 0;
  });
}

Operand part_of(const Operand& side, Range lines, Range depth) {
  if (side.codes.empty())
    return {side.data + lines.begin * side.line_stride + depth.begin * side.depth_stride, lines.count(),
            depth.count(), side.line_stride, side.depth_stride};
  constexpr std::int64_t kApart = 32;  // Lines a power of two apart would share few places of a cache.
  static thread_local std::vector<std::uint16_t> numbers;
  const Range from{depth.begin - depth.begin % 2, depth.end};  // Whole bytes of 4-bit codes.
  const std::int64_t stride = from.count() + kApart;
  const auto size = static_cast<std::size_t>(lines.count() * stride);
  if (numbers.size() < size) numbers.resize(size);
  std::int64_t first = 0;
  for (const CodedRows& rows : side.codes) {
    const Range here = common(lines, {first, first + rows.count});
    if (here.count() > 0)
      dequantise_block(rows, {here.begin - first, here.end - first}, from, DType::kBFloat16,
                       reinterpret_cast<std::byte*>(numbers.data() + (here.begin - lines.begin) * stride),
                       stride);
    first += rows.count;
  }
  return {numbers.data() + (depth.begin - from.begin), lines.count(), depth.count(), stride, 1};
}

}  // namespace sluice::ops::cpu::products
