// Attention of numbers that are multiplied as float32, with the product kernel of this processor; see
// forward.hpp. Internal to src/ops.
#pragma once

#include "ops/cpu/attention/heads.hpp"
#include "ops/cpu/products/aligned_floats.hpp"
#include "ops/cpu/products/micro_kernel.hpp"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>

namespace sluice::ops::cpu {

/// Computes attention_blocks::attend_all() of float or at::BFloat16 numbers.
template <class Number>
void float_attention(std::span<const attention_blocks::HeadsForward<Number>> all);

/// Computes the gradients of float_attention().
template <class Number>
void float_attention_gradients(std::span<const attention_blocks::HeadsBackward<Number>> all);

namespace attention_blocks {

/// 32 lines of a packed side, from some depth on. The first panel of columns, or chunk of the depth, is at
/// `data`, and the next one `step` numbers after it.
struct FloatRows {
  const float* data;
  std::int64_t step;
};

/// A whole side as a product kernel takes it. A left side has chunks of products::kDepth of the depth; if the
/// depth is less, several blocks of 32 lines share the rows of a chunk. A right side has panels of columns.
class FloatSide {
 public:
  /// Makes a side of zeros.
  FloatSide(std::int64_t lines, std::int64_t depth, OperandSide side);

  /// Packs lines.
  template <class Number>
  FloatSide(const Lines<Number>& lines, OperandSide side);

  /// Returns 32 lines from `line` on, from `depth` on; both are multiples of 32.
  [[nodiscard]] FloatRows rows(std::int64_t line, std::int64_t depth = 0) const {
    return {numbers_.data() + place(line, depth), step_};
  }
  /// Returns where these lines begin, to be written.
  [[nodiscard]] float* block(std::int64_t line, std::int64_t depth) {
    return numbers_.data() + place(line, depth);
  }
  [[nodiscard]] std::int64_t step() const { return step_; }

 private:
  [[nodiscard]] std::int64_t place(std::int64_t line, std::int64_t depth) const;

  OperandSide side_;
  std::int64_t depth_, at_once_;  ///< Depth, a multiple of 32, and blocks of lines that share rows.
  std::int64_t step_;
  AlignedFloats numbers_;
};

/// Computes sums [32, 32], rows `stride` apart, = or += left right. The depth ends with a left side's chunk, or
/// begins with one.
void multiply(const FloatRows& left, const FloatRows& right, std::int64_t depth, float* sums,
              std::int64_t stride, IntoSums into);

/// A running softmax of 32 queries over panels of keys.
class FloatSoftmax {
 public:
  FloatSoftmax() { largest_.fill(products::kNoExponent); }
  /// Starts each query's sum with one exponent of 2 that belongs to no key, such as a sink's.
  explicit FloatSoftmax(float exponent) {
    largest_.fill(exponent);
    sums_.fill(1);
  }
  [[nodiscard]] products::RunningSoftmax state() { return {largest_.data(), sums_.data()}; }
  /// Divides output [width, 32] by the sums.
  void finish(float* output, std::int64_t width) const;
  /// Returns log2 of the sum of 2^exponent of a query.
  [[nodiscard]] float logsumexp(std::int64_t query) const;

 private:
  std::array<float, kBlock> largest_, sums_{};
};

/// Scores of up to kPanelKeys keys for 32 queries, which become weights in place.
class ForwardFloats {
 public:
  /// Computes the scores of 32 keys, from key `key` of the panel on.
  void set_scores(std::int64_t key, const FloatRows& keys, const FloatRows& queries, std::int64_t width);
  void join(FloatSoftmax& softmax, std::int64_t keys, SeenBits seen, float scale, float* output,
            std::int64_t width);
  [[nodiscard]] FloatRows weights() const;

 private:
  alignas(64) std::array<float, kPanelKeys * kBlock> numbers_;
};

/// Probabilities and gradients of the scores for some positions: for 32 keys, with keys as lines, and for a
/// panel of keys, with positions as lines.
class BackwardFloats {
 public:
  /// Fills the block of 32 keys, from key `key` of the panel on, by 32 queries.
  void set_block(std::int64_t query, std::int64_t key, const Factors<FloatRows>& scores,
                 const Factors<FloatRows>& grads, std::int64_t width, const QueryTerms& terms, SeenBits seen,
                 float scale);
  [[nodiscard]] FloatRows weights(std::int64_t query) const { return weights_.rows(0, query); }
  [[nodiscard]] FloatRows grads(std::int64_t query) const { return grads_.rows(0, query); }
  [[nodiscard]] FloatRows grads_by_query(std::int64_t query, std::int64_t key) const {
    return grads_by_query_.rows(query, key);
  }

 private:
  FloatSide weights_{kBlock, kGradientPositions, OperandSide::kLeft};
  FloatSide grads_{kBlock, kGradientPositions, OperandSide::kLeft};
  FloatSide grads_by_query_{kGradientPositions, kGradientKeys, OperandSide::kRight};
};

}  // namespace attention_blocks
}  // namespace sluice::ops::cpu
