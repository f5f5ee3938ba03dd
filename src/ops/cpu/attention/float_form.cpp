#include "ops/cpu/attention/float_form.hpp"

#include "base/range.hpp"
#include "base/round.hpp"
#include "ops/cpu/attention/forward.hpp"
#include "ops/cpu/attention/gradients.hpp"
#include "ops/cpu/kernel.hpp"
#include "ops/cpu/matmul.hpp"
#include "ops/cpu/products/packing.hpp"

#include <algorithm>
#include <cmath>

namespace sluice::ops::cpu {
namespace attention_blocks {
namespace {

using products::kDepth;
using products::kLeftStride;
using products::ProductKernel;

static_assert(kBlock == products::kScoreQueries && kPanelKeys == products::kScoreKeys);
static_assert(kBlock == products::kPackedAtOnce && kGradientPositions <= kDepth && kGradientKeys <= kDepth);

const ProductKernel& here() { return widening_kernel(); }

/// Packs lines; `distance` is that of the panels of a right side.
void pack(const Lines<at::BFloat16>& part, OperandSide side, std::int64_t distance, float* to) {
  static_assert(sizeof(at::BFloat16) == sizeof(std::uint16_t));
  const products::Operand operand{reinterpret_cast<const std::uint16_t*>(part.data), part.lines, part.depth,
                                  part.line_stride, part.depth_stride};
  const products::Runs runs = side == OperandSide::kLeft
                                  ? products::Runs{kLeftStride, kDepth, 0}
                                  : products::Runs{here().columns, here().columns, distance};
  products::pack(here(), operand, side, {0, part.lines}, {0, part.depth}, to, runs);
}
void pack(const Lines<float>& part, OperandSide side, std::int64_t distance, float* to) {
  const std::int64_t columns = here().columns;
  for (std::int64_t line = 0; line < part.lines; ++line) {
    const bool is_left = side == OperandSide::kLeft;
    float* const target = to + (is_left ? line * kLeftStride : line / columns * distance + line % columns);
    for (std::int64_t d = 0; d < part.depth; ++d)
      target[is_left ? d : d * columns] = part.data[line * part.line_stride + d * part.depth_stride];
  }
}

template <class Number>
SLUICE_VECTOR_CLONES void store_scaled(const float* row, float factor, Number* out, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) out[i] = kernel::store<Number>(row[i] * factor);
}

SLUICE_VECTOR_CLONES void scale_queries(float* columns, std::int64_t rows, const float* factors) {
  for (std::int64_t row = 0; row < rows; ++row, columns += kBlock)
    for (std::int64_t query = 0; query < kBlock; ++query) columns[query] *= factors[query];
}

/// Where sums [32, 32] go: rows `stride` apart, and the columns of a product kernel `distance` after the last ones.
struct SumPanels {
  float* data;
  std::int64_t stride, distance;
};

void multiply_panels(const FloatRows& left, const FloatRows& right, std::int64_t depth, const SumPanels& sums,
                     IntoSums into) {
  const ProductKernel& kernel = here();
  const std::int64_t parts = divide_up(kBlock, kernel.rows), panels = kBlock / kernel.columns;
  bool adds = into == IntoSums::kAdding;
  for (std::int64_t d = 0; d < depth; d += kDepth, adds = true)
    // A panel of the right side stays in the nearest cache while the lines pass by.
    for (std::int64_t panel = 0; panel < panels; ++panel)
      for (std::int64_t i = 0; i < parts; ++i) {
        const Range lines = equal_part(kBlock, parts, i);
        kernel.multiply(left.data + d / kDepth * left.step + lines.begin * kLeftStride, lines.count(),
                        right.data + panel * right.step + d * kernel.columns, std::min(kDepth, depth - d),
                        {sums.data + lines.begin * sums.stride + panel * sums.distance, sums.stride,
                         kernel.columns, adds});
      }
}

/// Attention of numbers of a class with products of float32, see forward.hpp.
template <class NumberOfHeads>
struct FloatForm {
  using Number = NumberOfHeads;
  struct Held {};
  using Side = FloatSide;
  using Rows = FloatRows;
  using Softmax = FloatSoftmax;
  using ForwardPanel = ForwardFloats;
  using BackwardPanel = BackwardFloats;
  static constexpr std::int64_t kPackedBytes = sizeof(float);  ///< Bytes of a number of a side.
  /// Number of keys that pass by at a time, which stay in a core's second-level cache.
  static constexpr std::int64_t kPassKeys = 1024;

  static Side pack(const Lines<Number>& lines, OperandSide side) { return {lines, side}; }
  static void multiply(const Rows& left, const Rows& right, std::int64_t depth, float* sums,
                       std::int64_t stride, IntoSums into) {
    attention_blocks::multiply(left, right, depth, sums, stride, into);
  }
  static void write_columns(const float* columns, std::int64_t stride, std::int64_t count, std::int64_t width,
                            float factor, Number* target, std::int64_t target_stride) {
    const std::int64_t rows = round_up(width, kBlock);
    AlignedFloats turned(kBlock * rows);
    for (std::int64_t first = 0; first < count; first += kBlock) {
      here().transpose(columns + first, rows, kBlock, stride, turned.data(), rows);
      for (std::int64_t i = 0; i < std::min(kBlock, count - first); ++i)
        store_scaled(turned.data() + i * rows, factor, target + (first + i) * target_stride, width);
    }
  }
  static void write_row(const float* row, std::int64_t width, float factor, Number* target) {
    store_scaled(row, factor, target, width);
  }
  static float dot(const Number* a, const Number* b, std::int64_t width) { return kernel::dot(a, b, width); }
};

}  // namespace

FloatSide::FloatSide(std::int64_t lines, std::int64_t depth, OperandSide side)
    : side_(side), depth_(round_up(depth, kBlock)), at_once_(std::max<std::int64_t>(1, kDepth / depth_)) {
  const std::int64_t blocks = divide_up(lines, kBlock);
  if (side == OperandSide::kLeft) {
    step_ = divide_up(blocks, at_once_) * kBlock * kLeftStride;
    numbers_ = AlignedFloats(divide_up(depth_, kDepth) * step_);
  } else {
    step_ = depth_ * here().columns;
    numbers_ = AlignedFloats(blocks * kBlock * depth_);
  }
}

template <class Number>
FloatSide::FloatSide(const Lines<Number>& of, OperandSide side) : FloatSide(of.lines, of.depth, side) {
  for (std::int64_t line = 0; line < of.lines; line += kBlock)
    for (std::int64_t d = 0; d < of.depth; d += kDepth)
      pack(Lines<Number>{of.data + line * of.line_stride + d * of.depth_stride,
                         std::min(kBlock, of.lines - line), std::min(kDepth, of.depth - d), of.line_stride,
                         of.depth_stride},
           side, step_, block(line, d));
}

std::int64_t FloatSide::place(std::int64_t line, std::int64_t depth) const {
  if (side_ == OperandSide::kRight) return line / here().columns * step_ + depth * here().columns;
  const std::int64_t block = line / kBlock;
  return depth / kDepth * step_ + block / at_once_ * kBlock * kLeftStride + block % at_once_ * depth_ +
         depth % kDepth;
}

void multiply(const FloatRows& left, const FloatRows& right, std::int64_t depth, float* sums,
              std::int64_t stride, IntoSums into) {
  multiply_panels(left, right, depth, {sums, stride, here().columns}, into);
}

void FloatSoftmax::finish(float* output, std::int64_t width) const {
  std::array<float, kBlock> factors;
  std::ranges::transform(sums_, factors.begin(), [](float sum) { return 1.0F / sum; });
  scale_queries(output, width, factors.data());
}

float FloatSoftmax::logsumexp(std::int64_t query) const {
  const auto i = static_cast<std::size_t>(query);
  return largest_[i] + std::log2(sums_[i]);
}

void ForwardFloats::set_scores(std::int64_t key, const FloatRows& keys, const FloatRows& queries,
                               std::int64_t width) {
  const std::int64_t columns = here().columns;
  multiply_panels(keys, queries, width, {numbers_.data() + key * columns, columns, kPanelKeys * columns},
                  IntoSums::kReplacing);
}

void ForwardFloats::join(FloatSoftmax& softmax, std::int64_t keys, SeenBits seen, float scale, float* output,
                         std::int64_t width) {
  here().join({numbers_.data(), keys, seen, scale}, softmax.state(), output, width);
}

FloatRows ForwardFloats::weights() const { return {numbers_.data(), kPanelKeys * here().columns}; }

void BackwardFloats::set_block(std::int64_t query, std::int64_t key, const Factors<FloatRows>& scores,
                               const Factors<FloatRows>& grads, std::int64_t width, const QueryTerms& terms,
                               SeenBits seen, float scale) {
  float* const weights = weights_.block(0, query);
  float* const gradients = grads_.block(0, query);
  multiply(scores.left, scores.right, width, weights, kLeftStride, IntoSums::kReplacing);
  multiply(grads.left, grads.right, width, gradients, kLeftStride, IntoSums::kReplacing);
  here().differentiate({weights, gradients, grads_by_query_.block(query, key), grads_by_query_.step(),
                        terms.logsumexp, terms.delta, seen, scale});
}

}  // namespace attention_blocks

template <class Number>
void float_attention(std::span<const attention_blocks::HeadsForward<Number>> all) {
  attention_blocks::attend_all<attention_blocks::FloatForm<Number>>(all);
}
template <class Number>
void float_attention_gradients(std::span<const attention_blocks::HeadsBackward<Number>> all) {
  attention_blocks::differentiate_all<attention_blocks::FloatForm<Number>>(all);
}
template void float_attention(std::span<const attention_blocks::HeadsForward<float>>);
template void float_attention(std::span<const attention_blocks::HeadsForward<at::BFloat16>>);
template void float_attention_gradients(std::span<const attention_blocks::HeadsBackward<float>>);
template void float_attention_gradients(std::span<const attention_blocks::HeadsBackward<at::BFloat16>>);

}  // namespace sluice::ops::cpu
