// Layout of bfloat16 matrices in tiles, as a processor's tile registers (AMX) read them; its vectors of
// bfloat16 use the same layout. Internal to src/ops.
#pragma once

#include "ops/cpu/products/operand.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#if defined(__x86_64__) && defined(__linux__) && __has_include(<amxtileintrin.h>)
/// Attribute of functions that may only be called if has_tiles().
#define SLUICE_TILES \
  __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#endif

namespace sluice::ops::cpu::tiles {

using products::Operand;
using products::OperandSide;

// A tile register has 16 rows of 64 bytes: 16 rows by 32 of the depth of the left matrix, 16 pairs of the
// depth by 16 columns of the right matrix, or 16 by 16 sums of the result.
inline constexpr std::int64_t kLines = 16, kDepth = 32;
/// Number of lines of a block. Four tiles of the result are computed at a time from two of each side: each
/// loaded tile is used twice, and the sums and loads take all eight registers.
inline constexpr std::int64_t kBlock = 2 * kLines;

/// Returns a mask of the lowest `count` bits: none for counts below 0, all for 32 and above.
inline std::uint32_t lowest_bits(std::int64_t count) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << std::clamp<std::int64_t>(count, 0, 32)) - 1);
}

struct alignas(64) Tile {
  std::array<std::uint16_t, kLines * kDepth> numbers;
};

/// The tiles of 32 lines by a depth of 32.
struct BlockTiles {
  Tile *lower, *upper;
};

/// Whether a product replaces the sums, or is added to them.
enum class IntoSums : bool { kReplacing, kAdding };

/// Packs `lines` lines (a multiple of kBlock) by `depth_tiles` tiles of depth; the tiles of 16 lines follow
/// each other in depth, with zeros beyond the matrix.
void pack(const Operand& side, OperandSide side_of_product, std::int64_t first_line, std::int64_t lines,
          std::int64_t first_depth, std::int64_t depth_tiles, Tile* target);

}  // namespace sluice::ops::cpu::tiles
