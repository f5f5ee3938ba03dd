// The product of one block of tiles: on the processor's tile registers (AMX), or with its vectors of bfloat16
// (AVX-512) where it has none. Internal to src/ops.
#pragma once

#include "ops/cpu/level.hpp"
#include "ops/cpu/tiles/layout.hpp"

#ifdef SLUICE_TILES

#include "ops/cpu/tiles/registers.hpp"

#include <atomic>
#include <cstddef>

namespace sluice::ops::cpu::tiles {

/// Sets up the tile registers of this thread, if the processor has them, for the object's lifetime; every
/// caller of multiply() must hold one. Requires has_tiles().
class Registers {
 public:
  Registers();
  ~Registers();
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
};

/// 32 lines of a side that pack() made: two rows of tiles, the second `step` tiles after the first.
struct TileRows {
  const Tile* tiles;
  std::int64_t step;
};

/// Computes sums [16, 16], rows `stride` apart, = or += left right, over the given number of tiles of depth;
/// with vector instructions.
void multiply_vectors(const Tile* left, const Tile* right, std::int64_t depth_tiles, float* sums,
                      std::int64_t stride, IntoSums into);

/// Computes sums [32, 32], rows `stride` apart, = or += left right, over the given number of tiles of depth;
/// on tile registers. Calls `meanwhile` once for each tile of depth.
template <class ProgressHook>
SLUICE_TILES inline void multiply_registers(const TileRows& left, const TileRows& right,
                                            std::int64_t depth_tiles, float* sums, std::int64_t stride,
                                            IntoSums into, ProgressHook& meanwhile) {
  // Compilers do not know that a tile load reads memory or that a tile store writes it: earlier writes must
  // be done by this point, and later reads must stay after it.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const auto bytes = static_cast<std::size_t>(stride) * sizeof(float);
  float* const lower = sums + kLines * stride;
  if (into == IntoSums::kAdding) {
    _tile_loadd(0, sums, bytes);
    _tile_loadd(1, sums + kLines, bytes);
    _tile_loadd(2, lower, bytes);
    _tile_loadd(3, lower + kLines, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t d = 0; d < depth_tiles; ++d) {
    // All loads come first: if another program computes on the same core, loads and products do not overlap,
    // and each switch between the two costs time.
    _tile_loadd(4, left.tiles + d, 64);
    _tile_loadd(6, right.tiles + d, 64);
    _tile_loadd(7, right.tiles + right.step + d, 64);
    _tile_loadd(5, left.tiles + left.step + d, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    meanwhile();
  }
  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + kLines, bytes);
  _tile_stored(2, lower, bytes);
  _tile_stored(3, lower + kLines, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// Computes sums [32, 32], rows `stride` apart, = or += left right, over the given number of tiles of depth.
/// Calls `meanwhile` once for each tile of depth, for work that overlaps with the products.
template <class ProgressHook>
SLUICE_TILES inline void multiply(const TileRows& left, const TileRows& right, std::int64_t depth_tiles,
                                  float* sums, std::int64_t stride, IntoSums into, ProgressHook&& meanwhile) {
  if (has_tile_registers())
    return multiply_registers(left, right, depth_tiles, sums, stride, into, meanwhile);
  for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
    for (std::int64_t d = quarter; d < depth_tiles; d += 4) meanwhile();
    const std::int64_t lower = quarter / 2, right_half = quarter % 2;
    multiply_vectors(left.tiles + lower * left.step, right.tiles + right_half * right.step, depth_tiles,
                     sums + (lower * stride + right_half) * kLines, stride, into);
  }
}

/// Multiplies blocks without a progress hook.
void multiply(const TileRows& left, const TileRows& right, std::int64_t depth_tiles, float* sums,
              std::int64_t stride, IntoSums into);

}  // namespace sluice::ops::cpu::tiles

#endif
