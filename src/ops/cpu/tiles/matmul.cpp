#include "ops/cpu/tiles/matmul.hpp"

#include "base/error.hpp"
#include "base/round.hpp"
#include "ops/cpu/tiles/block.hpp"

#ifdef SLUICE_TILES

#include "ops/cpu/tiles/vectors.hpp"

#include <algorithm>
#include <array>
#include <limits>

SLUICE_VECTORS_BEGIN

namespace sluice::ops::cpu::tiles {
namespace {

/// Memory that will be packed next and is prefetched, a part with each tile of depth: the weights or gradients of a
/// product with few rows lie in memory, not in a cache.
class Prefetch {
 public:
  Prefetch(const Operand& side, Range lines, Range depth, std::int64_t blocks) {
    if (lines.count() <= 0 || !side.codes.empty()) return;
    const bool by_line = side.depth_stride == 1;
    const std::int64_t stride = by_line ? side.line_stride : side.depth_stride;
    const Range runs = by_line ? lines : depth, within = by_line ? depth : lines;
    next_ = side.data + runs.begin * stride + within.begin;
    chunks_ = divide_up(within.count(), kChunk);
    skip_ = stride - chunks_ * kChunk;
    left_ = runs.count() * chunks_;
    per_call_ = divide_up(left_, blocks * divide_up(depth.count(), kDepth));
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

struct alignas(64) Sums {
  std::array<float, kBlock * kBlock> values;
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

void write(const Sums& sums, const BlockTarget& out, const ProductTarget& product) {
  if (!product.is_float)
    write_rounded(sums, out);
  else if (!product.adds && is_whole(out))
    stream_sums(sums, out);
  else
    write_sums(sums, out, IntoSums{product.adds});
}

/// Form of a product on matrix tiles.
class TileProductForm {
 public:
  using Packed = Tile;
  using Ahead = Prefetch;
  /// The registers of a thread, whose stores past the caches are done when it ends.
  class OnThread {
   public:
    OnThread() = default;
    ~OnThread() { _mm_sfence(); }
    OnThread(const OnThread&) = delete;
    OnThread& operator=(const OnThread&) = delete;

   private:
    Registers registers_;
  };
  static constexpr bool kSharesLeft = true;

  /// Rows are packed in tiles that fit the second-level cache, but not so few that the other side would be packed
  /// too often.
  [[nodiscard]] static products::Cut cut(const ProductTarget& out, std::int64_t depth) {
    constexpr std::int64_t kLeftTiles = 512, kMinRows = 512, kAddedDepth = 1024;
    const std::int64_t most_depth = out.is_float ? kAddedDepth : kMaxRoundedDepth;
    const std::int64_t depth_tiles = divide_up(std::min(depth, most_depth), kDepth);
    return {.rows = std::max(kLeftTiles / (2 * depth_tiles) * kBlock, kMinRows),
            .columns = std::numeric_limits<std::int64_t>::max() / 2,
            .depth = most_depth,
            .block_rows = kBlock,
            .block_columns = kBlock,
            .row_unit = kBlock,
            .depth_unit = kDepth,
            .least_work = std::int64_t{1} << 22};
  }
  [[nodiscard]] static std::int64_t left_place(std::int64_t line, std::int64_t depth) {
    return line / kLines * turns(depth);
  }
  [[nodiscard]] static std::int64_t right_place(std::int64_t line, std::int64_t depth) {
    return left_place(line, depth);
  }
  [[nodiscard]] static std::int64_t turns(std::int64_t depth) { return divide_up(depth, kDepth); }

  static void pack(const Operand& side, OperandSide of, Range lines, Range depth, Tile* target) {
    tiles::pack(side, of, lines.begin, round_up(lines.count(), kBlock), depth.begin, turns(depth.count()),
                target);
  }

  template <class Compute>
  static void with_sums(const ProductTarget& out, std::int64_t /*rows*/, std::int64_t /*columns*/,
                        Compute&& compute) {
    compute(out);
  }

  SLUICE_TILES static void multiply(const Tile* left, std::int64_t rows, const Tile* right,
                                    std::int64_t columns, std::int64_t depth, const ProductTarget& out,
                                    Ahead& ahead) {
    const std::int64_t tiles = turns(depth);
    Sums sums;
    Ahead in_registers = ahead;
    for (std::int64_t column = 0; column < columns; column += kBlock) {
      tiles::multiply({left, tiles}, {right + right_place(column, depth), tiles}, tiles, sums.values.data(),
                      kBlock, IntoSums::kReplacing, in_registers);
      write(sums, {out.from(0, column).data, out.stride, rows, lowest_bits(columns - column)}, out);
    }
    ahead = in_registers;
  }
};

}  // namespace
}  // namespace sluice::ops::cpu::tiles

SLUICE_VECTORS_END

namespace sluice::ops::cpu {

void tile_matmul(const ProductTarget& out, const products::Operand& left, const products::Operand& right) {
  SLUICE_ASSERT(out.is_float || (!out.adds && left.depth <= kMaxRoundedDepth),
                "a product of depth {} is rounded", left.depth);
  const tiles::TileProductForm form;
  products::Product<tiles::TileProductForm>(form, out, left, right).compute();
}

}  // namespace sluice::ops::cpu

#else

namespace sluice::ops::cpu {

void tile_matmul(const ProductTarget&, const products::Operand&, const products::Operand&) {
  fail(ExitCode::kInternal, "this program was built without products on matrix tiles");
}

}  // namespace sluice::ops::cpu

#endif
