// Products of bfloat16 into float32 on the matrix tiles (AMX) of the processor: gradients of weights.
// Internal to src/ops.
//
// The library's products lay out the left matrix, which lies across here, and write the result in columns of
// blocks; ours writes it a row of blocks at a time, and takes 0.7 to 0.9 of the time for an expert's
// gradients.
#pragma once

#include "ops/tile_layout.hpp"

#include <cstdint>

namespace sluice::ops {

/// Where a product goes: rows `stride` elements apart; replaced or added to.
struct TileTarget {
  float* data;
  std::int64_t stride;
  bool adds;
};

/// out [left.lines, right.lines] = or += left right, both of one depth > 0. Requires has_tiles(). Keeps up to
/// some MiB per thread for its next call.
void tile_product(const TileTarget& out, const tiles::Side& left, const tiles::Side& right);

}  // namespace sluice::ops
