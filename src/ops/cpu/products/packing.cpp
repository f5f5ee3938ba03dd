#include "ops/cpu/products/packing.hpp"

#include <algorithm>

namespace sluice::ops::cpu::products {

void pack(const ProductKernel& kernel, const Operand& side, OperandSide of, Range lines, Range depth,
          float* to, const Runs& runs) {
  const bool by_line = side.depth_stride == 1;
  const bool turns = by_line == (of == OperandSide::kRight);
  const std::int64_t at_once = side.codes.empty() ? lines.count() : kPackedAtOnce;
  for (std::int64_t first = lines.begin; first < lines.end; first += at_once) {
    const Operand part = part_of(side, {first, std::min(first + at_once, lines.end)}, depth);
    const Halves from = by_line ? Halves{part.data, part.lines, part.depth, part.line_stride}
                                : Halves{part.data, part.depth, part.lines, part.depth_stride};
    const std::int64_t place = first - lines.begin;
    (turns ? kernel.widen_transposed : kernel.widen)(from, to + place / runs.length * runs.distance, runs);
  }
}

}  // namespace sluice::ops::cpu::products
