// The one product of packed sides: how it is cut into strips, blocks and panels, packed, and shared out among
// threads. What multiplies two packed blocks is a form: vectors of float32 (products/widening.cpp), vectors and
// tile registers of bfloat16 (tiles/matmul.cpp). Internal to src/ops.
#pragma once

#include "base/error.hpp"
#include "base/range.hpp"
#include "base/round.hpp"
#include "ops/cpu/products/micro_kernel.hpp"
#include "ops/cpu/products/operand.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::ops::cpu {

/// Destination of a product: rows `stride` elements apart, float32 or bfloat16.
struct ProductTarget {
  void* data;
  std::int64_t stride;
  bool is_float, adds;  ///< `adds`: Whether the product is added to what is there.

  /// The part from a row and a column on.
  [[nodiscard]] ProductTarget from(std::int64_t row, std::int64_t column) const {
    const std::int64_t bytes = (row * stride + column) * (is_float ? 4 : 2);
    return {static_cast<std::byte*>(data) + bytes, stride, is_float, adds};
  }
};

namespace products {

/// Equal parts of [0, count), each a whole number of units long, the last one as far as there is.
class Parts {
 public:
  Parts(std::int64_t count, std::int64_t unit, std::int64_t parts)
      : count_(count), unit_(unit), parts_(parts) {}
  /// As few parts as there can be of at most `most`, a multiple of the unit.
  static Parts of_at_most(std::int64_t count, std::int64_t unit, std::int64_t most) {
    SLUICE_ASSERT(most % unit == 0, "parts of at most {} cannot be whole units of {}", most, unit);
    return {count, unit, divide_up(count, most)};
  }

  [[nodiscard]] std::int64_t size() const { return parts_; }
  [[nodiscard]] Range operator[](std::int64_t i) const {
    const Range units = equal_part(divide_up(count_, unit_), parts_, i);
    return {units.begin * unit_, std::min(units.end * unit_, count_)};
  }

 private:
  std::int64_t count_, unit_, parts_;
};

/// The range that lies `offset` after another one.
[[nodiscard]] inline Range moved(Range range, std::int64_t offset) {
  return {range.begin + offset, range.end + offset};
}

/// How a form cuts products.
struct Cut {
  /// Largest number of rows and columns of the result, and largest depth, that a thread works on at a time.
  std::int64_t rows, columns, depth;
  /// Largest number of rows and columns of a block of sums that stays in registers.
  std::int64_t block_rows, block_columns;
  std::int64_t row_unit, depth_unit;  ///< Rows and depth are cut at multiples of these.
  std::int64_t least_work;            ///< Least number of multiplications of a thread.
};

/// Computes out [left.lines, right.lines] = or += left right for one form, which provides
///   Packed, what packed sides consist of;
///   OnThread, an object that each thread holds while it multiplies;
///   kSharesLeft: whether all threads pack a strip of the left side together, or each packs the rows of its block;
///   left_place(line, depth), right_place(line, depth): where a line of a packed side of that depth begins;
///   pack(side, side_of_product, lines, depth, target);
///   with_sums(out, rows, columns, compute), which calls `compute` with what multiply() writes to: `out`, or sums
///     that are then rounded;
///   Ahead, which is made of the side and part that are packed next and of the number of blocks of sums until then;
///   multiply(left, rows, right, columns, depth, out, ahead), of a block of rows and all columns of a panel.
/// A number is summed in an order that follows from the depth and the form.
template <class Form>
class Product {
 public:
  Product(const Form& form, const ProductTarget& out, const Operand& left, const Operand& right)
      : form_(form), cut_(form.cut(out, left.depth)), out_(out), left_(left), right_(right) {
    SLUICE_ASSERT(left.depth == right.depth && left.depth > 0,
                  "the two sides of a product have depths {} and {}", left.depth, right.depth);
  }

  void compute() const {
    const bool shares = Form::kSharesLeft;
    const Parts strips = Parts::of_at_most(left_.lines, cut_.row_unit, shares ? cut_.rows : left_.lines);
    const Parts depths = Parts::of_at_most(left_.depth, cut_.depth_unit, shares ? cut_.depth : left_.depth);
    for (std::int64_t strip = 0; strip < strips.size(); ++strip)
      for (std::int64_t part = 0; part < depths.size(); ++part) {
        const Range rows = strips[strip], depth = depths[part];
        share_out(rows, depth, shares ? pack_left_together(rows, depth) : nullptr);
      }
  }

 private:
  using Packed = typename Form::Packed;

  /// Memory for packed lines of a side, which a thread keeps for its next product.
  template <OperandSide kSide>
  [[nodiscard]] Packed* room_for(std::int64_t lines, std::int64_t depth) const {
    struct alignas(64) CacheLine {
      std::byte bytes[64];
    };
    static thread_local std::vector<CacheLine> kept;
    const std::int64_t whole = round_up(lines, kPackedAtOnce);
    const std::int64_t count =
        kSide == OperandSide::kLeft ? form_.left_place(whole, depth) : form_.right_place(whole, depth);
    const auto needed = static_cast<std::size_t>(
        divide_up<std::int64_t>(count * std::int64_t{sizeof(Packed)}, sizeof(CacheLine)));
    if (kept.size() < needed) kept.resize(needed);
    return reinterpret_cast<Packed*>(kept.data());
  }

  [[nodiscard]] std::int64_t grain(std::int64_t multiplications) const {
    return divide_up(cut_.least_work, std::max<std::int64_t>(1, multiplications));
  }

  const Packed* pack_left(Range rows, Range depth) const {
    Packed* const packed = room_for<OperandSide::kLeft>(rows.count(), depth.count());
    form_.pack(left_, OperandSide::kLeft, rows, depth, packed);
    return packed;
  }
  const Packed* pack_left_together(Range rows, Range depth) const {
    constexpr std::int64_t kCost = 128;  // Multiplications that take as long as moving one number.
    Packed* const packed = room_for<OperandSide::kLeft>(rows.count(), depth.count());
    const std::int64_t unit = cut_.row_unit;
    at::parallel_for(0, divide_up(rows.count(), unit), grain(unit * depth.count() * kCost),
                     [&](std::int64_t begin, std::int64_t end) {
                       const Range some{begin * unit, std::min(end * unit, rows.count())};
                       form_.pack(left_, OperandSide::kLeft, moved(some, rows.begin), depth,
                                  packed + form_.left_place(some.begin, depth.count()));
                     });
    return packed;
  }

  /// Shares the blocks of some rows out among threads; `left` is null or the packed rows.
  void share_out(Range rows, Range depth, const Packed* left) const {
    const Parts row_blocks = Parts::of_at_most(rows.count(), cut_.row_unit, cut_.rows);
    const Parts column_blocks{right_.lines, cut_.block_columns, column_blocks_beside(row_blocks.size())};
    const std::int64_t blocks = row_blocks.size() * column_blocks.size();
    const std::int64_t work = rows.count() * right_.lines * depth.count() / blocks;
    at::parallel_for(0, blocks, grain(work), [&](std::int64_t begin, std::int64_t end) {
      [[maybe_unused]] const typename Form::OnThread on_thread;
      for (std::int64_t block = begin; block < end; ++block)
        multiply_block(moved(row_blocks[block % row_blocks.size()], rows.begin),
                       column_blocks[block / row_blocks.size()], depth, left);
    });
  }

  /// Number of blocks along the columns: as few as there can be, or a few more so that threads get equally many.
  [[nodiscard]] std::int64_t column_blocks_beside(std::int64_t row_blocks) const {
    const std::int64_t most = divide_up(right_.lines, cut_.block_columns), threads = at::get_num_threads();
    constexpr std::int64_t kMany = 4;  // Blocks of a thread, beyond which a last round costs little.
    std::int64_t count = divide_up(right_.lines, cut_.columns);
    while (count < most && count * row_blocks < kMany * threads && count * row_blocks % threads != 0) ++count;
    return count;
  }

  void multiply_block(Range rows, Range columns, Range depth, const Packed* left) const {
    ProductTarget out = out_.from(rows.begin, columns.begin);
    out.adds = out.adds || depth.begin > 0;
    form_.with_sums(out, rows.count(), columns.count(),
                    [&](const ProductTarget& sums) { multiply_parts(rows, columns, depth, left, sums); });
  }

  /// Multiplies some of the depth at a time; packs the rows if `left` is null.
  void multiply_parts(Range rows, Range columns, Range depth, const Packed* left, ProductTarget out) const {
    const Parts parts = Parts::of_at_most(depth.count(), cut_.depth_unit, cut_.depth);
    for (std::int64_t i = 0; i < parts.size(); ++i, out.adds = true) {
      const Range part = moved(parts[i], depth.begin);
      multiply_panels(left != nullptr ? left : pack_left(rows, part), rows.count(), columns, part, out);
    }
  }

  /// Packs some columns at a time, and multiplies the packed rows by them.
  void multiply_panels(const Packed* left, std::int64_t rows, Range columns, Range depth,
                       const ProductTarget& out) const {
    constexpr std::int64_t kPanel = 128;  // Columns whose packed part of the depth fits a cache.
    const Parts panels = Parts::of_at_most(columns.count(), cut_.block_columns, kPanel);
    for (std::int64_t i = 0; i < panels.size(); ++i) {
      const Range panel = panels[i], next = i + 1 < panels.size() ? panels[i + 1] : Range{};
      Packed* const right = room_for<OperandSide::kRight>(panel.count(), depth.count());
      form_.pack(right_, OperandSide::kRight, moved(panel, columns.begin), depth, right);
      const std::int64_t blocks =
          divide_up(rows, cut_.block_rows) * divide_up(panel.count(), cut_.block_columns);
      multiply_panel(left, rows, right, panel.count(), depth.count(), out.from(0, panel.begin),
                     typename Form::Ahead(right_, moved(next, columns.begin), depth, blocks));
      poll_progress();
    }
  }

  /// Multiplies packed rows and columns: a few rows stay in the nearest cache, and the columns pass by in the
  /// order in which they lie.
  void multiply_panel(const Packed* left, std::int64_t rows, const Packed* right, std::int64_t columns,
                      std::int64_t depth, const ProductTarget& out, typename Form::Ahead ahead) const {
    const Parts row_blocks = Parts::of_at_most(rows, cut_.row_unit, cut_.block_rows);
    for (std::int64_t i = 0; i < row_blocks.size(); ++i)
      form_.multiply(left + form_.left_place(row_blocks[i].begin, depth), row_blocks[i].count(), right,
                     columns, depth, out.from(row_blocks[i].begin, 0), ahead);
  }

  const Form& form_;
  Cut cut_;
  const ProductTarget& out_;
  const Operand &left_, &right_;
};

}  // namespace products
}  // namespace sluice::ops::cpu
