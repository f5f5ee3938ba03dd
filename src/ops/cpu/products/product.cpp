#include "ops/cpu/products/product.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "base/round.hpp"
#include "ops/cpu/products/aligned_floats.hpp"
#include "ops/cpu/products/packing.hpp"
#include "ops/runtime/progress_hook.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

namespace sluice::ops::cpu {
namespace products {
namespace {

/// Largest number of rows and of columns of the result that a thread works on at a time: the packed rows fit
/// the second-level cache.
constexpr std::int64_t kMostRows = 256, kMostColumns = 256;
/// Number of columns that are packed at a time, so that rows of a right side are read in runs of whole cache
/// lines.
constexpr std::int64_t kPanels = 128;
static_assert(kDepth % kPackedAtOnce == 0 && kMostRows % kPackedAtOnce == 0);

/// Packed sides and sums of a thread, whose memory is reused by its next product.
thread_local AlignedFloats left_buffer, right_buffer, sums_buffer;

/// A product, and how it is cut into blocks, which threads share out.
class Product {
 public:
  Product(const ProductKernel& kernel, const ProductTarget& out, const tiles::Operand& left,
          const tiles::Operand& right)
      : kernel_(kernel),
        out_(out),
        left_(left),
        right_(right),
        row_blocks_(divide_up(left.lines, kMostRows)) {
    const std::int64_t panels = divide_up(right.lines, kernel_.columns), threads = at::get_num_threads();
    column_blocks_ = divide_up(panels, kMostColumns / kernel_.columns);
    constexpr std::int64_t kMany = 4;  // Blocks of a thread, beyond which a last round costs little.
    while (column_blocks_ < panels && blocks() < kMany * threads && blocks() % threads != 0) ++column_blocks_;
    panels_ = panels;
  }

  [[nodiscard]] std::int64_t blocks() const { return row_blocks_ * column_blocks_; }

  void multiply_block(std::int64_t block) const {
    const Range panels = equal_part(panels_, column_blocks_, block / row_blocks_);
    const Range columns{panels.begin * kernel_.columns, std::min(panels.end * kernel_.columns, right_.lines)};
    const Range rows = equal_part(left_.lines, row_blocks_, block % row_blocks_);
    if (out_.is_float) {
      float* const sums = static_cast<float*>(out_.data) + rows.begin * out_.stride + columns.begin;
      return multiply_parts(rows, columns, {sums, out_.stride, columns.count(), out_.adds});
    }
    const std::int64_t stride = round_up(columns.count(), kernel_.columns);
    float* const sums = sums_buffer.at_least(rows.count() * stride);
    auto* const out = static_cast<std::uint16_t*>(out_.data) + rows.begin * out_.stride + columns.begin;
    if (out_.adds)
      kernel_.widen({out, rows.count(), columns.count(), out_.stride}, sums, {stride, columns.count(), 0});
    multiply_parts(rows, columns, {sums, stride, columns.count(), out_.adds});
    for (std::int64_t row = 0; row < rows.count(); ++row)
      kernel_.round(sums + row * stride, columns.count(), out + row * out_.stride);
  }

 private:
  /// Multiplies some of the depth at a time.
  void multiply_parts(Range rows, Range columns, Sums sums) const {
    const std::int64_t parts = divide_up(left_.depth, kDepth);
    for (std::int64_t part = 0; part < parts; ++part, sums.adds = true)
      multiply_part(rows, columns, equal_part(left_.depth, parts, part), sums);
  }

  /// Multiplies a part of the depth.
  void multiply_part(Range rows, Range columns, Range depth, const Sums& sums) const {
    float* const left = left_buffer.at_least(kMostRows * kLeftStride);
    float* const right = right_buffer.at_least(kDepth * kPanels);
    pack(kernel_, left_, tiles::OperandSide::kLeft, rows, depth, left, {kLeftStride, kDepth, 0});
    for (std::int64_t first = 0; first < columns.count(); first += kPanels) {
      const Range some{first, std::min(first + kPanels, columns.count())};
      pack(kernel_, right_, tiles::OperandSide::kRight,
           {columns.begin + some.begin, columns.begin + some.end}, depth, right,
           {kernel_.columns, kernel_.columns, kDepth * kernel_.columns});
      multiply_panels(left, rows.count(), right, some, depth.count(), sums);
      poll_progress();
    }
  }

  /// Multiplies packed rows and some packed columns: a few rows stay in the nearest cache, and the columns pass
  /// by in the order in which they lie.
  void multiply_panels(const float* left, std::int64_t rows, const float* right, Range columns,
                       std::int64_t depth, const Sums& sums) const {
    const std::int64_t parts = divide_up(rows, kernel_.rows);
    for (std::int64_t i = 0; i < parts; ++i) {
      const Range part = equal_part(rows, parts, i);
      for (std::int64_t column = columns.begin; column < columns.end; column += kernel_.columns)
        kernel_.multiply(left + part.begin * kLeftStride, part.count(),
                         right + (column - columns.begin) * kDepth, depth,
                         {sums.data + part.begin * sums.stride + column, sums.stride,
                          std::min(kernel_.columns, columns.end - column), sums.adds});
    }
  }

  const ProductKernel& kernel_;
  const ProductTarget& out_;
  const tiles::Operand &left_, &right_;
  std::int64_t row_blocks_, column_blocks_ = 0, panels_ = 0;
};

}  // namespace
}  // namespace products

void widening_matmul(const products::ProductKernel& kernel, const ProductTarget& out,
                     const tiles::Operand& left, const tiles::Operand& right) {
  SLUICE_ASSERT(left.depth == right.depth && left.depth > 0,
                "the two sides of a product have depths {} and {}", left.depth, right.depth);
  const products::Product product(kernel, out, left, right);
  constexpr std::int64_t kMinWork = 1 << 19;  // Least number of multiplications of a thread.
  const std::int64_t work =
      std::max<std::int64_t>(1, left.lines * right.lines * left.depth / product.blocks());
  at::parallel_for(0, product.blocks(), divide_up(kMinWork, work), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) product.multiply_block(block);
  });
}

}  // namespace sluice::ops::cpu
