#include "ops/tile_product.hpp"

#include "base/error.hpp"
#include "base/round.hpp"

#if defined(__x86_64__) && defined(__linux__) && __has_include(<amxtileintrin.h>)

#include <ATen/Parallel.h>

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#if defined(__GNUC__) && !defined(__clang__)
// GCC takes the "undefined" operands inside its own vector functions for mistakes of ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define SLUICE_TILES \
  __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace sluice::ops {
namespace {

// A tile register is 16 rows of 64 bytes: of the left matrix 16 rows by 32 of the depth, of the right one 16
// pairs of the depth by 16 columns, of the result 16 by 16 sums.
constexpr std::int64_t kLines = 16, kDepth = 32;
/// Four result tiles are computed at a time, from two tiles of each side: each loaded tile is used twice, and
/// with the loads all eight registers are taken.
constexpr std::int64_t kBlock = 2 * kLines;
/// Tiles of depth that are worked on at a time, so that 32 lines of a side stay in the first cache.
constexpr std::int64_t kPanelDepth = 16;
/// Tiles of a side that are laid out at a time: they fit into the second cache beside those of the other.
constexpr std::int64_t kLeftTiles = 1024, kRightTiles = 512;

struct alignas(64) Tile {
  std::array<std::uint16_t, kLines * kDepth> numbers;
};
struct alignas(64) Sums {
  std::array<float, kBlock * kBlock> values;
};

/// The lowest `count` bits, none below 0.
__mmask32 first(std::int64_t count) {
  return count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((1U << std::max<std::int64_t>(count, 0)) - 1);
}

/// Rows become columns, of 16 x 16 elements of four bytes.
SLUICE_TILES void transpose(__m512i* rows) {
  __m512i half[16];
  for (int i = 0; i < 16; i += 2) {
    half[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    half[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(half[i], half[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(half[i], half[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(half[i + 1], half[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(half[i + 1], half[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    half[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
    half[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
    half[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
    half[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(half[i], half[i + 8], 0xdd);
    rows[i + 4] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0x88);
    rows[i + 12] = _mm512_shuffle_i32x4(half[i + 4], half[i + 12], 0xdd);
  }
}

/// 32 numbers of each of 16 lines, a line per register; beyond the matrix zeros.
SLUICE_TILES void load_lines(const TileSide& side, std::int64_t line, std::int64_t depth, __m512i* rows) {
  const __mmask32 mask = first(side.depth - depth);
  const std::uint16_t* source = side.data + line * side.line_stride + depth;
  const std::int64_t count = std::min(kLines, side.lines - line);
  for (std::int64_t i = 0; i < kLines; ++i, source += side.line_stride) {
    _mm_prefetch(source + kLines * side.line_stride, _MM_HINT_T0);
    rows[i] = i < count ? _mm512_maskz_loadu_epi16(mask, source) : _mm512_setzero_si512();
  }
}

/// 16 pairs of neighbours in depth of each of 32 lines, a pair of 16 lines per register: those of the lower
/// lines, then those of the upper ones; beyond the matrix zeros.
SLUICE_TILES void load_pairs(const TileSide& side, std::int64_t line, std::int64_t depth, __m512i* rows) {
  const __m512i lower = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i upper = _mm512_add_epi16(lower, _mm512_set1_epi16(16));
  const __mmask32 mask = first(side.lines - line);
  const std::uint16_t* source = side.data + depth * side.depth_stride + line;
  const std::int64_t count = std::min(kDepth, side.depth - depth);
  for (std::int64_t i = 0; i < kDepth; i += 2, source += 2 * side.depth_stride) {
    const __m512i even = i < count ? _mm512_maskz_loadu_epi16(mask, source) : _mm512_setzero_si512();
    const __m512i odd =
        i + 1 < count ? _mm512_maskz_loadu_epi16(mask, source + side.depth_stride) : _mm512_setzero_si512();
    _mm_prefetch(source + kDepth * side.depth_stride, _MM_HINT_T0);
    _mm_prefetch(source + (kDepth + 1) * side.depth_stride, _MM_HINT_T0);
    rows[i / 2] = _mm512_permutex2var_epi16(even, lower, odd);
    rows[kLines + i / 2] = _mm512_permutex2var_epi16(even, upper, odd);
  }
}

enum class Hand : bool { kLeft, kRight };

SLUICE_TILES void store(const __m512i* rows, Tile& tile) {
  for (std::size_t i = 0; i < 16; ++i) _mm512_store_si512(tile.numbers.data() + i * kDepth, rows[i]);
}

/// The tiles of `lines` lines (a multiple of 32) by `depth_tiles` tiles of depth: those of 16 lines follow
/// each other in depth.
SLUICE_TILES void lay_out(const TileSide& side, Hand hand, std::int64_t first_line, std::int64_t lines,
                          std::int64_t first_depth, std::int64_t depth_tiles, Tile* target) {
  const bool lies_in_depth = side.depth_stride == 1;
  const bool turns = lies_in_depth == (hand == Hand::kRight);
  if (lies_in_depth) {
    for (std::int64_t line = 0; line < lines; line += kLines)
      for (std::int64_t d = 0; d < depth_tiles; ++d) {
        __m512i rows[kLines];
        load_lines(side, first_line + line, first_depth + d * kDepth, rows);
        if (turns) transpose(rows);
        store(rows, target[line / kLines * depth_tiles + d]);
      }
    return;
  }
  for (std::int64_t d = 0; d < depth_tiles; ++d) {
    for (std::int64_t line = 0; line < lines; line += kBlock) {
      __m512i rows[2 * kLines];
      load_pairs(side, first_line + line, first_depth + d * kDepth, rows);
      for (std::int64_t half = 0; half < 2; ++half) {
        if (turns) transpose(rows + half * kLines);
        store(rows + half * kLines, target[(line / kLines + half) * depth_tiles + d]);
      }
    }
  }
}

SLUICE_TILES void configure_tiles() {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0;
    std::array<std::uint8_t, 14> reserved{};
    std::array<std::uint16_t, 16> row_bytes{};
    std::array<std::uint8_t, 16> rows{};
  } config;
  std::fill_n(config.row_bytes.begin(), 8, std::uint16_t{64});
  std::fill_n(config.rows.begin(), 8, std::uint8_t{16});
  _tile_loadconfig(&config);
}

/// sums [32, 32], rows `stride` apart, = or += two lines of left tiles by two of right ones; `left_line` and
/// `right_line` tiles lie between lines.
SLUICE_TILES void multiply(const Tile* left, std::int64_t left_line, const Tile* right,
                           std::int64_t right_line, std::int64_t depth_tiles, float* sums,
                           std::int64_t stride, bool adds) {
  // Compilers do not know that loading a tile reads memory: what was laid out must be there by now.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const auto bytes = static_cast<std::size_t>(stride) * sizeof(float);
  float* const lower = sums + kLines * stride;
  if (adds) {
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
    _tile_loadd(4, left + d, 64);
    _tile_loadd(6, right + d, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, right + right_line + d, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, left + left_line + d, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, bytes);
  _tile_stored(1, sums + kLines, bytes);
  _tile_stored(2, lower, bytes);
  _tile_stored(3, lower + kLines, bytes);
}

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
  const TileSide& right;
  const Tile* left;
  std::int64_t first_row, rows, first_depth, depth_tiles;
  bool adds;
};

/// A block at the edge of the result, of which it has `rows` by `columns`.
void multiply_edge(const Strip& strip, const Tile* left, const Tile* right, float* out, std::int64_t rows,
                   std::int64_t columns) {
  Sums sums;
  multiply(left, strip.depth_tiles, right, strip.depth_tiles, strip.depth_tiles, sums.values.data(), kBlock,
           /*adds=*/false);
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
        multiply(left, strip.depth_tiles, right, strip.depth_tiles, strip.depth_tiles, out, strip.out.stride,
                 strip.adds);
      else
        multiply_edge(strip, left, right, out, rows, std::min(kBlock, columns - column));
    }
  }
}

/// Blocks of columns [begin, end) of a strip.
SLUICE_TILES void multiply_blocks(const Strip& strip, std::int64_t begin, std::int64_t end) {
  configure_tiles();
  const std::int64_t most = kRightTiles / strip.depth_tiles * kLines;
  const std::int64_t last = std::min(end * kBlock, strip.right.lines);
  for (std::int64_t column = begin * kBlock; column < last; column += most)
    multiply_columns(strip, column, std::min(most, last - column));
  _tile_release();
}

void multiply_strip(const Strip& strip) {
  constexpr std::int64_t kGrain = 1 << 22;  // multiplications that are worth a thread
  const std::int64_t per_block = strip.rows * strip.depth_tiles * kDepth * kBlock;
  at::parallel_for(0, divide_up(strip.right.lines, kBlock), divide_up(kGrain, per_block),
                   [&](std::int64_t begin, std::int64_t end) { multiply_blocks(strip, begin, end); });
}

bool processor_has_tiles() {
  constexpr unsigned kFeatures = 7, kBfloat16 = 1U << 22, kTiles = 1U << 24;  // in EDX
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) == 0 || (d & kBfloat16) == 0 || (d & kTiles) == 0)
    return false;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

/// A process must ask before its first use of the tiles.
bool system_allows_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // linux/arch/x86/include/uapi/asm/prctl.h
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool has_tiles() {
  static const bool has = processor_has_tiles() && system_allows_tiles();
  return has;
}

void tile_product(const TileTarget& out, const TileSide& left, const TileSide& right) {
  SLUICE_ASSERT(left.depth == right.depth && left.depth > 0, "depths of {} and {}", left.depth, right.depth);
  constexpr std::int64_t kMostRows = kLeftTiles / kPanelDepth * kLines;
  constexpr std::int64_t kMostDepth = kPanelDepth * kDepth;
  for (std::int64_t row = 0; row < left.lines; row += kMostRows) {
    const std::int64_t rows = std::min(kMostRows, left.lines - row);
    for (std::int64_t depth = 0; depth < left.depth; depth += kMostDepth) {
      const std::int64_t depth_tiles = divide_up(std::min(kMostDepth, left.depth - depth), kDepth);
      const std::int64_t lines = round_up(rows, kBlock);
      Tile* const laid_out = at_least(scratch().left, lines / kLines * depth_tiles);
      lay_out(left, Hand::kLeft, row, lines, depth, depth_tiles, laid_out);
      multiply_strip({out, right, laid_out, row, rows, depth, depth_tiles, out.adds || depth > 0});
    }
  }
}

}  // namespace sluice::ops

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#else

namespace sluice::ops {

bool has_tiles() { return false; }

void tile_product(const TileTarget&, const TileSide&, const TileSide&) {
  fail(ExitCode::kInternal, "a product on matrix tiles, which this program was built without");
}

}  // namespace sluice::ops

#endif
