// Matrices of bfloat16 in tiles: as the tile registers (AMX) of a processor read them, which suits its
// vectors of bfloat16 as well. Internal to src/ops.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#if defined(__x86_64__) && defined(__linux__) && __has_include(<amxtileintrin.h>)
/// Attribute of functions that only run where has_tiles().
#define SLUICE_TILES \
  __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#endif

namespace sluice::ops::cpu::tiles {

// A register is 16 rows of 64 bytes: of the left matrix 16 rows by 32 of the depth, of the right one 16 pairs
// of the depth by 16 columns, of the result 16 by 16 sums.
inline constexpr std::int64_t kLines = 16, kDepth = 32;
/// Four tiles of the result are computed at a time, from two of each side: each that is loaded is used twice,
/// and with the loads all eight registers are taken.
inline constexpr std::int64_t kBlock = 2 * kLines;

/// A mask of the lowest `count` bits: none below 0, all from 32 on.
inline std::uint32_t lowest_bits(std::int64_t count) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << std::clamp<std::int64_t>(count, 0, 32)) - 1);
}

/// One side of a product: its lines are rows of the left or columns of the right matrix, of `depth` bfloat16
/// each. One of the two strides (in elements) is 1.
struct Operand {
  const std::uint16_t* data;
  std::int64_t lines, depth, line_stride, depth_stride;
};

struct alignas(64) Tile {
  std::array<std::uint16_t, kLines * kDepth> numbers;
};

/// Tiles of 32 lines by a depth of 32.
struct BlockTiles {
  Tile *lower, *upper;
};

enum class OperandSide : bool { kLeft, kRight };

/// Whether products take the place of the sums that are there, or are added to them.
enum class IntoSums : bool { kReplacing, kAdding };

/// The tiles of `lines` lines (a multiple of kBlock) by `depth_tiles` tiles of depth: those of 16 lines
/// follow each other in depth. Beyond the matrix they are zeros.
void pack(const Operand& side, OperandSide side_of_product, std::int64_t first_line, std::int64_t lines,
          std::int64_t first_depth, std::int64_t depth_tiles, Tile* target);

}  // namespace sluice::ops::cpu::tiles
