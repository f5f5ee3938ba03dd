// Products of bfloat16 into float32 on the matrix tiles (AMX) of the processor: gradients of weights.
// Internal to src/ops.
//
// The library's products lay out the left matrix, which lies across here, and write the result in columns of
// blocks; ours writes it a row of blocks at a time, and takes 0.7 to 0.9 of the time for an expert's
// gradients.
#pragma once

#include <cstdint>

namespace sluice::ops {

/// One side of a product: its lines are rows of the left or columns of the right matrix, of `depth` bfloat16
/// each. One of the two strides (in elements) is 1.
struct TileSide {
  const std::uint16_t* data;
  std::int64_t lines, depth, line_stride, depth_stride;
};

/// Where a product goes: rows `stride` elements apart; replaced or added to.
struct TileTarget {
  float* data;
  std::int64_t stride;
  bool adds;
};

/// Whether the processor has the tiles and the system lets this process use them.
[[nodiscard]] bool has_tiles();

/// out [left.lines, right.lines] = or += left right, both of one depth > 0. Requires has_tiles(). Keeps up to
/// some MiB per thread for its next call.
void tile_product(const TileTarget& out, const TileSide& left, const TileSide& right);

}  // namespace sluice::ops
