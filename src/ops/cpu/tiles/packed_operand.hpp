// Packed sides of products on matrix tiles, for attention. Internal to src/ops.
#pragma once

#include "base/round.hpp"
#include "ops/cpu/tiles/block.hpp"

#ifdef SLUICE_TILES

#include <memory>

namespace sluice::ops::cpu::tiles {

/// The packed tiles of a whole side.
class PackedOperand {
 public:
  /// Allocates the tiles, uninitialised: lines and depth are rounded up to multiples of 32.
  PackedOperand(std::int64_t lines, std::int64_t depth)
      : depth_tiles_(divide_up(depth, kDepth)),
        tiles_(std::make_unique_for_overwrite<Tile[]>(
            static_cast<std::size_t>(round_up(lines, kBlock) / kLines * depth_tiles_))) {}
  PackedOperand(const Operand& side, OperandSide side_of_product) : PackedOperand(side.lines, side.depth) {
    pack(side, side_of_product, 0, round_up(side.lines, kBlock), 0, depth_tiles_, tiles_.get());
  }

  /// Returns 32 lines from `line` on, from `depth` on; both are multiples of 32.
  [[nodiscard]] TileRows rows(std::int64_t line, std::int64_t depth = 0) const {
    return {tiles_.get() + line / kLines * depth_tiles_ + depth / kDepth, depth_tiles_};
  }
  [[nodiscard]] BlockTiles block(std::int64_t line, std::int64_t depth) {
    Tile* const lower = tiles_.get() + line / kLines * depth_tiles_ + depth / kDepth;
    return {lower, lower + depth_tiles_};
  }

 private:
  std::int64_t depth_tiles_;
  std::unique_ptr<Tile[]> tiles_;
};

}  // namespace sluice::ops::cpu::tiles

#endif
