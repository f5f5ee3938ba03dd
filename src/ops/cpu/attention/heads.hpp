// The heads that attention works on, block by block. Internal to src/ops.
#pragma once

#include "ops/cpu/tiles/layout.hpp"
#include "ops/cpu/token_ids.hpp"

#include <cstdint>
#include <numbers>

namespace sluice::ops::cpu::attention_blocks {

using products::OperandSide;
using tiles::IntoSums;
using tiles::kBlock;

/// Number of keys in a panel, which 32 queries meet at a time: their scores stay in a core's first-level
/// cache.
inline constexpr std::int64_t kPanelKeys = 128;
/// Number of positions of a head, and of keys, in a panel of the backward pass.
inline constexpr std::int64_t kGradientPositions = 256, kGradientKeys = 256;

/// One word for each key, with a bit for each of 32 queries that attends to the key.
using SeenBits = const std::uint32_t*;

/// 32 lines of each of the two sides of a product.
template <class Rows>
struct Factors {
  Rows left, right;
};

/// Values of 32 queries that the backward pass needs.
struct QueryTerms {
  const float* logsumexp;  ///< log2 of the sum of 2^exponent over all keys, of each query.
  const float* delta;      ///< D of each query, the dot product of dO and O.
};

/// Shape of one key and value head of a sequence and of the query heads that share it, and who sees whom.
struct HeadShape {
  std::int64_t length, width, group;
  /// Strides in elements from a position to the next; the heads of a group are `width` elements apart.
  std::int64_t query_stride, key_stride;
  const std::int64_t* document;  ///< Document of each position, see document_of().
  float scale;
  float* logsumexp;  ///< Output [group, length]: log2 of the sum of e^(scale * score) over all keys.
  const float* sinks =
      nullptr;  ///< Logits [group] of sinks that are added to these sums; null: no sinks, or already added.

  /// Returns the first key that the query at this position attends to.
  [[nodiscard]] std::int64_t first_key(std::int64_t position) const { return first_seen(document, position); }
  /// Returns the first key of the block that holds first_key().
  [[nodiscard]] std::int64_t first_block(std::int64_t position) const {
    return first_key(position) / kBlock * kBlock;
  }
  [[nodiscard]] std::int64_t query_offset(std::int64_t head, std::int64_t position) const {
    return position * query_stride + head * width;
  }
  /// Factor that turns a score into an exponent of 2.
  [[nodiscard]] float log2_scale() const { return scale * std::numbers::log2e_v<float>; }

  /// Returns the end of the positions in [begin, end) that attend to a key before `key_end`.
  [[nodiscard]] std::int64_t end_of_seeing(std::int64_t begin, std::int64_t end, std::int64_t key_end) const;

  /// Whether all queries of a block, from `position` on, attend to all keys [begin, end).
  [[nodiscard]] bool all_see(std::int64_t position, std::int64_t begin, std::int64_t end) const;
  /// Sets one bit per query that attends to the key, for each key in [begin, end); the last queries may not
  /// exist.
  void who_sees(std::int64_t position, std::int64_t begin, std::int64_t end, std::uint32_t* seen) const;
};

/// Lines of `depth` numbers each; the two strides are in numbers, and one of them is 1.
template <class Number>
struct Lines {
  const Number* data;
  std::int64_t lines, depth, line_stride, depth_stride;

  /// Returns lines that run across these.
  [[nodiscard]] Lines turned() const { return {data, depth, lines, depth_stride, line_stride}; }
};

/// The numbers of these heads.
template <class Number>
struct Heads : HeadShape {
  const Number *q, *k, *v;

  /// Returns a line for each position of numbers that are laid out as k.
  [[nodiscard]] Lines<Number> key_lines(const Number* data) const {
    return {data, length, width, key_stride, 1};
  }
  /// Returns a line for each position in [begin, end) of a head of the group, of numbers that are laid out as q.
  [[nodiscard]] Lines<Number> query_lines(const Number* data, std::int64_t head, std::int64_t begin,
                                          std::int64_t end) const {
    return {data + query_offset(head, begin), end - begin, width, query_stride, 1};
  }
};

/// Attention of one key head and its queries: `out` = softmax(scale * q k^T) v, laid out as q, and logsumexp.
template <class Number>
struct HeadsForward {
  Heads<Number> heads;
  Number* out;
  std::int64_t first_query = 0;  ///< First query; earlier ones may be left out.
};

/// Inputs and outputs of the backward pass, which needs `out` and logsumexp; gradients are laid out as q, k
/// and v.
template <class Number>
struct HeadsBackward {
  Heads<Number> heads;
  const Number *out, *d_out;
  Number *q, *k, *v;
};

}  // namespace sluice::ops::cpu::attention_blocks
