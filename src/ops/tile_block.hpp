// The tile registers (AMX) of the processor: whether they are there, and the product of one block. Internal
// to src/ops.
#pragma once

#include "ops/tile_layout.hpp"

namespace sluice::ops {

/// Whether the processor has the tiles, the system lets this process use them, and ONEDNN_MAX_CPU_ISA does
/// not forbid them, which holds oneDNN back in the same way.
[[nodiscard]] bool has_tiles();

}  // namespace sluice::ops

#ifdef SLUICE_TILES

namespace sluice::ops::tiles {

/// Sets up the tile registers of this thread while it lives; whoever calls multiply() holds one. Requires
/// has_tiles().
class Registers {
 public:
  SLUICE_TILES Registers();
  SLUICE_TILES ~Registers();
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
};

/// 32 lines of a side that lay_out() made: two rows of tiles, the second `step` tiles after the first.
struct TileRows {
  const Tile* tiles;
  std::int64_t step;
};

/// sums [32, 32], rows `stride` apart, = or += left right, over so many tiles of depth.
void multiply(const TileRows& left, const TileRows& right, std::int64_t depth_tiles, float* sums,
              std::int64_t stride, bool adds);

}  // namespace sluice::ops::tiles

#endif
