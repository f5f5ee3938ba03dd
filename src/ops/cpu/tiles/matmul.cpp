#include "ops/cpu/tiles/matmul.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "base/round.hpp"
#include "ops/cpu/tiles/block.hpp"
#include "ops/runtime/progress_hook.hpp"

#ifdef SLUICE_TILES

#include "ops/cpu/tiles/vectors.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <vector>

SLUICE_VECTORS_BEGIN

namespace sluice::ops::cpu::tiles {
namespace {

/// Largest number of lines of the right side that are packed and multiplied at a time.
constexpr std::int64_t kPanel = 128;
/// Number of tiles of the left side that are packed at a time, to fit the second-level cache; at least
/// kMinLines lines, or the right side would be packed too often.
constexpr std::int64_t kLeftTiles = 512, kMinLines = 512;
/// Depth that is multiplied at a time if the result can be added to.
constexpr std::int64_t kAddedDepth = 1024;

struct alignas(64) Sums {
  std::array<float, kBlock * kBlock> values;
};

/// Packed operands of a thread, whose memory is reused by its next product.
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

/// Memory that will be packed next and is prefetched, a part with each call.
class Ahead {
 public:
  Ahead(const Operand& side, Range lines, Range depth, std::int64_t calls) {
    if (lines.count() <= 0 || !side.codes.empty()) return;
    const bool by_line = side.depth_stride == 1;
    const std::int64_t stride = by_line ? side.line_stride : side.depth_stride;
    const Range runs = by_line ? lines : depth, within = by_line ? depth : lines;
    next_ = side.data + runs.begin * stride + within.begin;
    chunks_ = divide_up(within.count(), kChunk);
    skip_ = stride - chunks_ * kChunk;
    left_ = runs.count() * chunks_;
    per_call_ = divide_up(left_, calls);
  }

  void operator()() {
    for (std::int64_t i = std::min(per_call_, left_); i > 0; --i) {
      __builtin_prefetch(next_, /*rw=*/0, /*locality=*/2);
      next_ += kChunk;
      if (++chunk_ == chunks_) {
        chunk_ = 0;
        next_ += skip_;
      }
    }
    left_ -= per_call_;
  }

 private:
  static constexpr std::int64_t kChunk = 32;  // Numbers in a cache line.
  const std::uint16_t* next_ = nullptr;
  std::int64_t chunk_ = 0, chunks_ = 0, skip_ = 0, left_ = 0, per_call_ = 0;
};

/// Destination of a block of the result; `mask` says which of its 32 columns exist.
struct BlockTarget {
  void* data;
  std::int64_t stride, rows;
  std::uint32_t mask;
};

SLUICE_TILES void write_rounded(const Sums& sums, const BlockTarget& out) {
  const float* from = sums.values.data();
  auto* to = static_cast<std::uint16_t*>(out.data);
  for (std::int64_t row = 0; row < out.rows; ++row, from += kBlock, to += out.stride) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_load_ps(from + kLines), _mm512_load_ps(from));
    _mm512_mask_storeu_epi16(to, out.mask, reinterpret_cast<__m512i>(both));
  }
}

SLUICE_TILES void write_sums(const Sums& sums, const BlockTarget& out, IntoSums into) {
  const auto lower = static_cast<__mmask16>(out.mask), upper = static_cast<__mmask16>(out.mask >> kLines);
  const float* from = sums.values.data();
  auto* to = static_cast<float*>(out.data);
  for (std::int64_t row = 0; row < out.rows; ++row, from += kBlock, to += out.stride) {
    __m512 first = _mm512_load_ps(from), second = _mm512_load_ps(from + kLines);
    if (into == IntoSums::kAdding) {
      first = _mm512_add_ps(first, _mm512_maskz_loadu_ps(lower, to));
      second = _mm512_add_ps(second, _mm512_maskz_loadu_ps(upper, to + kLines));
    }
    _mm512_mask_storeu_ps(to, lower, first);
    _mm512_mask_storeu_ps(to + kLines, upper, second);
  }
}

/// Stores past the caches: a gradient is not read again before many others are written.
SLUICE_TILES void stream_sums(const Sums& sums, const BlockTarget& out) {
  const float* from = sums.values.data();
  auto* to = static_cast<float*>(out.data);
  for (std::int64_t row = 0; row < out.rows; ++row, from += kBlock, to += out.stride) {
    _mm512_stream_ps(to, _mm512_load_ps(from));
    _mm512_stream_ps(to + kLines, _mm512_load_ps(from + kLines));
  }
}

/// Whether a block can be stored past the caches, in whole cache lines.
bool is_whole(const BlockTarget& out) {
  constexpr std::uintptr_t kLine = 64;
  return out.mask == lowest_bits(kBlock) && reinterpret_cast<std::uintptr_t>(out.data) % kLine == 0 &&
         out.stride % kLines == 0;
}

void write(const Sums& sums, const BlockTarget& out, TileResult result) {
  if (result == TileResult::kRounded)
    write_rounded(sums, out);
  else if (result == TileResult::kReplaces && is_whole(out))
    stream_sums(sums, out);
  else
    write_sums(sums, out, IntoSums{result == TileResult::kAdds});
}

/// Some rows of the result and a part of the depth, with the left side packed.
struct Strip {
  const TileTarget& out;
  const Operand& right;
  const Tile* left;
  Range rows, depth;
  std::int64_t depth_tiles;
  TileResult result;

  [[nodiscard]] BlockTarget block(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = (rows.begin + row) * out.stride + column;
    void* const data = result == TileResult::kRounded
                           ? static_cast<void*>(static_cast<std::uint16_t*>(out.data) + place)
                           : static_cast<float*>(out.data) + place;
    return {data, out.stride, std::min(kBlock, rows.count() - row), lowest_bits(right.lines - column)};
  }
};

/// Multiplies some columns of a strip; `next` are the columns that follow, which are prefetched.
SLUICE_TILES void multiply_panel(const Strip& strip, Range columns, Range next) {
  const std::int64_t lines = round_up(columns.count(), kBlock), tiles = strip.depth_tiles;
  Tile* const right = at_least(scratch().right, lines / kLines * tiles);
  pack(strip.right, OperandSide::kRight, columns.begin, lines, strip.depth.begin, tiles, right);
  Ahead ahead(strip.right, next, strip.depth, divide_up(strip.rows.count(), kBlock) * lines / kBlock * tiles);
  Sums sums;
  for (std::int64_t row = 0; row < strip.rows.count(); row += kBlock) {
    for (std::int64_t column = 0; column < columns.count(); column += kBlock) {
      multiply({strip.left + row / kLines * tiles, tiles}, {right + column / kLines * tiles, tiles}, tiles,
               sums.values.data(), kBlock, IntoSums::kReplacing, ahead);
      write(sums, strip.block(row, columns.begin + column), strip.result);
    }
  }
}

/// Multiplies a thread's columns of a strip, in panels of about equal width.
SLUICE_TILES void multiply_panels(const Strip& strip, Range columns) {
  const Registers registers;
  const std::int64_t panels = divide_up(columns.count(), kPanel);
  const std::int64_t width = round_up(divide_up(columns.count(), panels), kBlock);
  const auto panel = [&](std::int64_t first) { return Range{first, std::min(first + width, columns.end)}; };
  for (std::int64_t first = columns.begin; first < columns.end; first += width) {
    multiply_panel(strip, panel(first), panel(first + width));
    poll_progress();
  }
  _mm_sfence();
}

/// Returns the number of parts of a product for one thread.
std::int64_t grain(std::int64_t multiplications) { return divide_up(std::int64_t{1} << 22, multiplications); }

Tile* pack_left(const Operand& left, Range rows, Range depth, std::int64_t depth_tiles) {
  const std::int64_t blocks = divide_up(rows.count(), kBlock), block_tiles = 2 * depth_tiles;
  Tile* const target = at_least(scratch().left, blocks * block_tiles);
  constexpr std::int64_t kCost = 128;  // Multiplications that take as long as moving one number.
  at::parallel_for(0, blocks, grain(kBlock * depth.count() * kCost),
                   [&](std::int64_t begin, std::int64_t end) {
                     pack(left, OperandSide::kLeft, rows.begin + begin * kBlock, (end - begin) * kBlock,
                          depth.begin, depth_tiles, target + begin * block_tiles);
                   });
  return target;
}

/// Adds the products of a part of the depth to some rows.
void multiply_strip(const TileTarget& out, const Operand& left, const Operand& right, Range rows,
                    Range depth) {
  const std::int64_t depth_tiles = divide_up(depth.count(), kDepth);
  const Strip strip{out,   right,       pack_left(left, rows, depth, depth_tiles),       rows,
                    depth, depth_tiles, depth.begin > 0 ? TileResult::kAdds : out.result};
  // Threads share blocks, not panels: with three panels, one of two threads would be busy for twice as long.
  at::parallel_for(0, divide_up(right.lines, kBlock), grain(rows.count() * depth.count() * kBlock),
                   [&](std::int64_t begin, std::int64_t end) {
                     multiply_panels(strip, {begin * kBlock, std::min(end * kBlock, right.lines)});
                   });
}

}  // namespace
}  // namespace sluice::ops::cpu::tiles

SLUICE_VECTORS_END

namespace sluice::ops::cpu {

void tile_matmul(const TileTarget& out, const tiles::Operand& left, const tiles::Operand& right) {
  const bool rounds = out.result == TileResult::kRounded;
  SLUICE_ASSERT(left.depth == right.depth && left.depth > 0 && (!rounds || left.depth <= kMaxRoundedDepth),
                "the two sides of a product have depths {} and {}", left.depth, right.depth);
  const std::int64_t most_depth = rounds ? kMaxRoundedDepth : tiles::kAddedDepth;
  const std::int64_t depth_tiles = divide_up(std::min(left.depth, most_depth), tiles::kDepth);
  const std::int64_t most_lines = std::max(tiles::kLeftTiles / depth_tiles * tiles::kLines, tiles::kMinLines);
  for (std::int64_t row = 0; row < left.lines; row += most_lines)
    for (std::int64_t depth = 0; depth < left.depth; depth += most_depth)
      tiles::multiply_strip(out, left, right, {row, std::min(row + most_lines, left.lines)},
                            {depth, std::min(depth + most_depth, left.depth)});
}

}  // namespace sluice::ops::cpu

#else

namespace sluice::ops::cpu {

void tile_matmul(const TileTarget&, const tiles::Operand&, const tiles::Operand&) {
  fail(ExitCode::kInternal, "this program was built without products on matrix tiles");
}

}  // namespace sluice::ops::cpu

#endif
