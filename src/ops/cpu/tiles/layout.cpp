#include "ops/cpu/tiles/layout.hpp"

#ifdef SLUICE_TILES

#include "ops/cpu/tiles/vectors.hpp"

#include <algorithm>

SLUICE_VECTORS_BEGIN

namespace sluice::ops::cpu::tiles {
namespace {

/// Loads 32 numbers of each of 16 lines, one line per register; zeros beyond the matrix.
SLUICE_TILES void load_lines(const Operand& side, std::int64_t line, std::int64_t depth, __m512i* rows) {
  const __mmask32 mask = lowest_bits(side.depth - depth);
  const std::uint16_t* source = side.data + line * side.line_stride + depth;
  const std::int64_t count = std::min(kLines, side.lines - line);
  for (std::int64_t i = 0; i < kLines; ++i, source += side.line_stride) {
    _mm_prefetch(source + kLines * side.line_stride, _MM_HINT_T0);
    rows[i] = i < count ? _mm512_maskz_loadu_epi16(mask, source) : _mm512_setzero_si512();
  }
}

/// Loads 16 pairs of neighbours in depth of each of 32 lines, a pair of 16 lines per register: first the
/// lower lines, then the upper lines; zeros beyond the matrix.
SLUICE_TILES void load_pairs(const Operand& side, std::int64_t line, std::int64_t depth, __m512i* rows) {
  const __mmask32 mask = lowest_bits(side.lines - line);
  const std::uint16_t* source = side.data + depth * side.depth_stride + line;
  const std::int64_t count = std::min(kDepth, side.depth - depth);
  for (std::int64_t i = 0; i < kDepth; i += 2, source += 2 * side.depth_stride) {
    const __m512i even = i < count ? _mm512_maskz_loadu_epi16(mask, source) : _mm512_setzero_si512();
    const __m512i odd =
        i + 1 < count ? _mm512_maskz_loadu_epi16(mask, source + side.depth_stride) : _mm512_setzero_si512();
    _mm_prefetch(source + kDepth * side.depth_stride, _MM_HINT_T0);
    _mm_prefetch(source + (kDepth + 1) * side.depth_stride, _MM_HINT_T0);
    const Pairs pairs = pairs_of(even, odd);
    rows[i / 2] = pairs.lower;
    rows[kLines + i / 2] = pairs.upper;
  }
}

SLUICE_TILES void store(const __m512i* rows, Tile& tile) {
  for (std::size_t i = 0; i < 16; ++i) _mm512_store_si512(tile.numbers.data() + i * kDepth, rows[i]);
}

/// Packs a side whose lines are contiguous.
SLUICE_TILES void pack_lines(const Operand& side, bool turns, std::int64_t first_line, std::int64_t lines,
                             std::int64_t first_depth, std::int64_t depth_tiles, Tile* target) {
  for (std::int64_t line = 0; line < lines; line += kLines) {
    for (std::int64_t d = 0; d < depth_tiles; ++d) {
      __m512i rows[kLines];
      load_lines(side, first_line + line, first_depth + d * kDepth, rows);
      if (turns) transpose(rows);
      store(rows, target[line / kLines * depth_tiles + d]);
    }
  }
}

/// Packs a side that is contiguous across its lines.
SLUICE_TILES void pack_pairs(const Operand& side, bool turns, std::int64_t first_line, std::int64_t lines,
                             std::int64_t first_depth, std::int64_t depth_tiles, Tile* target) {
  for (std::int64_t d = 0; d < depth_tiles; ++d) {
    for (std::int64_t line = 0; line < lines; line += kBlock) {
      __m512i rows[2 * kLines];
      load_pairs(side, first_line + line, first_depth + d * kDepth, rows);
      for (std::int64_t half = 0; half < 2; ++half) {
        if (turns) transpose(rows + half * kLines);
        store(rows + half * kLines, target[(line / kLines + half) * depth_tiles + d]);
      }
    }
  }
}

}  // namespace

void pack(const Operand& side, OperandSide side_of_product, std::int64_t first_line, std::int64_t lines,
          std::int64_t first_depth, std::int64_t depth_tiles, Tile* target) {
  if (!side.codes.empty()) {
    const Range depth{first_depth, std::min(first_depth + depth_tiles * kDepth, side.depth)};
    for (std::int64_t line = 0; line < lines; line += kLines, target += depth_tiles) {
      const std::int64_t begin = std::min(first_line + line, side.lines);
      pack(part_of(side, {begin, std::min(begin + kLines, side.lines)}, depth), side_of_product, 0, kLines, 0,
           depth_tiles, target);
    }
    return;
  }
  // Lines are the rows of a left tile; pairs are the rows of a right tile.
  if (side.depth_stride == 1)
    pack_lines(side, side_of_product == OperandSide::kRight, first_line, lines, first_depth, depth_tiles,
               target);
  else
    pack_pairs(side, side_of_product == OperandSide::kLeft, first_line, lines, first_depth, depth_tiles,
               target);
}

}  // namespace sluice::ops::cpu::tiles

SLUICE_VECTORS_END

#endif
