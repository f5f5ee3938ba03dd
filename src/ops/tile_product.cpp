#include "ops/tile_product.hpp"

#include "base/error.hpp"
#include "base/round.hpp"
#include "ops/tile_block.hpp"

#ifdef SLUICE_TILES

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <vector>

namespace sluice::ops::tiles {
namespace {

/// Tiles of depth that are worked on at a time, so that 32 lines of a side stay in the first cache.
constexpr std::int64_t kPanelDepth = 16;
/// Tiles of a side that are laid out at a time: they fit into the second cache beside those of the other.
constexpr std::int64_t kLeftTiles = 1024, kRightTiles = 512;

struct alignas(64) Sums {
  std::array<float, kBlock * kBlock> values;
};

/// What a thread lays out, kept for its next product.
struct Scratch {
  std::vector<Tile> left, right;
};

Scratch& scratch() {
  static thread_local Scratch kept;
  return kept;
}

Tile* at_least(std::vector<Tile>& buffer, std::int64_t count) {
  if (std::ssize(buffer) < count) buffer.resize(static_cast<std::size_t>(count));
  return buffer.data();
}

/// Rows [first_row, first_row + rows) of the result and a part of the depth, with the left side laid out.
struct Strip {
  const TileTarget& out;
  const Side& right;
  const Tile* left;
  std::int64_t first_row, rows, first_depth, depth_tiles;
  bool adds;
};

/// A block at the edge of the result, of which it has `rows` by `columns`.
void multiply_edge(const Strip& strip, const Tile* left, const Tile* right, float* out, std::int64_t rows,
                   std::int64_t columns) {
  Sums sums;
  multiply({left, strip.depth_tiles}, {right, strip.depth_tiles}, strip.depth_tiles, sums.values.data(),
           kBlock, /*adds=*/false);
  for (std::int64_t r = 0; r < rows; ++r, out += strip.out.stride) {
    const float* row = sums.values.data() + r * kBlock;
    for (std::int64_t c = 0; c < columns; ++c) out[c] = strip.adds ? out[c] + row[c] : row[c];
  }
}

/// Columns [first, first + columns) of a strip.
void multiply_columns(const Strip& strip, std::int64_t first_column, std::int64_t columns) {
  const std::int64_t lines = round_up(columns, kBlock);
  Tile* const right_tiles = at_least(scratch().right, lines / kLines * strip.depth_tiles);
  lay_out(strip.right, Hand::kRight, first_column, lines, strip.first_depth, strip.depth_tiles, right_tiles);
  for (std::int64_t row = 0; row < strip.rows; row += kBlock) {
    const Tile* left = strip.left + row / kLines * strip.depth_tiles;
    const std::int64_t rows = std::min(kBlock, strip.rows - row);
    for (std::int64_t column = 0; column < columns; column += kBlock) {
      const Tile* right = right_tiles + column / kLines * strip.depth_tiles;
      float* out = strip.out.data + (strip.first_row + row) * strip.out.stride + first_column + column;
      if (rows == kBlock && column + kBlock <= columns)
        multiply({left, strip.depth_tiles}, {right, strip.depth_tiles}, strip.depth_tiles, out,
                 strip.out.stride, strip.adds);
      else
        multiply_edge(strip, left, right, out, rows, std::min(kBlock, columns - column));
    }
  }
}

/// Blocks of columns [begin, end) of a strip.
void multiply_blocks(const Strip& strip, std::int64_t begin, std::int64_t end) {
  const Registers registers;
  const std::int64_t most = kRightTiles / strip.depth_tiles * kLines;
  const std::int64_t last = std::min(end * kBlock, strip.right.lines);
  for (std::int64_t column = begin * kBlock; column < last; column += most)
    multiply_columns(strip, column, std::min(most, last - column));
}

struct Part {
  std::int64_t begin, end;
  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

/// What a part of the depth adds to a part of the rows.
void multiply_strip(const TileTarget& out, const Side& left, const Side& right, Part rows, Part depth) {
  const std::int64_t depth_tiles = divide_up(depth.count(), kDepth);
  const std::int64_t lines = round_up(rows.count(), kBlock);
  Tile* const laid_out = at_least(scratch().left, lines / kLines * depth_tiles);
  lay_out(left, Hand::kLeft, rows.begin, lines, depth.begin, depth_tiles, laid_out);
  const Strip strip{out,          right,       laid_out,    rows.begin,
                    rows.count(), depth.begin, depth_tiles, out.adds || depth.begin > 0};
  constexpr std::int64_t kGrain = 1 << 22;  // multiplications that are worth a thread
  at::parallel_for(0, divide_up(right.lines, kBlock),
                   divide_up(kGrain, rows.count() * depth.count() * kBlock),
                   [&](std::int64_t begin, std::int64_t end) { multiply_blocks(strip, begin, end); });
}

}  // namespace
}  // namespace sluice::ops::tiles

namespace sluice::ops {

void tile_product(const TileTarget& out, const tiles::Side& left, const tiles::Side& right) {
  SLUICE_ASSERT(left.depth == right.depth && left.depth > 0, "depths of {} and {}", left.depth, right.depth);
  constexpr std::int64_t kMostRows = tiles::kLeftTiles / tiles::kPanelDepth * tiles::kLines;
  constexpr std::int64_t kMostDepth = tiles::kPanelDepth * tiles::kDepth;
  for (std::int64_t row = 0; row < left.lines; row += kMostRows)
    for (std::int64_t depth = 0; depth < left.depth; depth += kMostDepth)
      tiles::multiply_strip(out, left, right, {row, std::min(row + kMostRows, left.lines)},
                            {depth, std::min(depth + kMostDepth, left.depth)});
}

}  // namespace sluice::ops

#else

namespace sluice::ops {

void tile_product(const TileTarget&, const tiles::Side&, const tiles::Side&) {
  fail(ExitCode::kInternal, "a product on matrix tiles, which this program was built without");
}

}  // namespace sluice::ops

#endif
