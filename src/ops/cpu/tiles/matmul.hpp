// Products of bfloat16 matrices, block by block of tiles. Internal to src/ops.
//
// The weights or gradients of a product with few rows lie in memory, not in a cache: their next lines are
// prefetched while tiles are multiplied, and gradients are stored past the caches. oneDNN's products do
// neither, and take 1.05 to 1.7 times as long on an expert's sizes.
#pragma once

#include "ops/cpu/tiles/layout.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// How a product stores its float32 sums: rounded to bfloat16, as they are, or added to the destination.
enum class TileResult : std::uint8_t { kRounded, kReplaces, kAdds };

/// Destination of a product: rows `stride` elements apart, bfloat16 if the product is rounded, else float32.
struct TileTarget {
  void* data;
  std::int64_t stride;
  TileResult result;
};

/// Largest depth of a product that is rounded.
inline constexpr std::int64_t kMaxRoundedDepth = 4096;

/// Computes out [left.lines, right.lines] = or += left right, whose depths are equal and > 0. Requires
/// has_tiles(). Each thread keeps up to some MiB for its next call.
void tile_matmul(const TileTarget& out, const tiles::Operand& left, const tiles::Operand& right);

}  // namespace sluice::ops::cpu
