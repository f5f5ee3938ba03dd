// Products of bfloat16, block by block of tiles. Internal to src/ops.
//
// The weights or gradients of a product with few rows lie in memory, not in a cache: their next lines are
// fetched while tiles are multiplied, and gradients go past the caches. The library's products do neither,
// and take 1.05 to 1.7 times as long for those of an expert.
#pragma once

#include "ops/cpu/tiles/layout.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// Treatment of the sums, which are float32: rounded to bfloat16, kept, or added to what is there.
enum class TileResult : std::uint8_t { kRounded, kReplaces, kAdds };

/// Destination of a product: rows `stride` elements apart, of bfloat16 if rounded, else of float32.
struct TileTarget {
  void* data;
  std::int64_t stride;
  TileResult result;
};

/// The greatest depth of a product that is rounded.
inline constexpr std::int64_t kMaxRoundedDepth = 4096;

/// out [left.lines, right.lines] = or += left right, both of one depth > 0. Requires has_tiles(). Keeps up to
/// some MiB per thread for its next call.
void tile_matmul(const TileTarget& out, const tiles::Operand& left, const tiles::Operand& right);

}  // namespace sluice::ops::cpu
