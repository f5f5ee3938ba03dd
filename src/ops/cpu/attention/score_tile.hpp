// The loops between the products of attention, on one tile of scores: queries of all heads that share one
// head of keys, against some consecutive keys. Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops::cpu {

/// Rows of a sequence's heads [L, heads, d] that one block works on: row h * positions + p is head `head` + h
/// at position `begin` + p.
struct HeadRows {
  std::int64_t head;
  std::int64_t group;  ///< query heads that share the key head
  std::int64_t begin;
  std::int64_t positions;
  const std::int64_t* document;  ///< document of each position, see document_of()

  [[nodiscard]] std::int64_t rows() const { return group * positions; }
};

/// The block's rows of x [L, heads, d], dense: [rows, d].
at::Tensor take_rows(const at::Tensor& x, const HeadRows& block);

/// Writes `rows` [rows, d] (float32), each times its factor, to the block's rows of x [L, heads, d], rounded
/// to x's dtype. Without factors (null) the rows as they are.
void put_rows(const at::Tensor& rows, const float* factors, const at::Tensor& x, const HeadRows& block);

/// A softmax over tiles of keys, one after the other.
struct RunningSoftmax {
  float* largest;  ///< [rows], scaled; begins at -infinity
  float* sum;      ///< [rows] of e^(score - largest); begins at 0
  float* factor;   ///< [rows]: what the last tile multiplies everything before it with
};

/// Scores [rows, n] of queries against keys `first_key` ... + n to e^(scale * score - largest), 0 for keys
/// that a query does not see, in place; joins them into the softmax.
void join_scores(const at::Tensor& scores, const HeadRows& block, std::int64_t first_key, double scale,
                 const RunningSoftmax& softmax);

/// sum [rows, d] (float32) = factor * sum + product, row by row.
void scale_and_add(const at::Tensor& sum, const float* factor, const at::Tensor& product);

/// Numbers of a block's queries that the backward pass needs.
struct QueryRows {
  const float* logsumexp;  ///< [rows]: log of the sum of e^(scale * score) over all keys
  const float* delta;      ///< [rows]: D of the backward pass, the row sum of dO * O
};

/// Transposed scores [n, rows] to probabilities, and transposed gradients of the probabilities to those of
/// the scores before they are scaled; in place.
void score_gradients(const at::Tensor& scores, const at::Tensor& grads, const HeadRows& block,
                     std::int64_t first_key, double scale, const QueryRows& queries);

/// out [rows]: the sum of a * b over each row of a and b [rows, d], whose rows may lie apart.
void row_dots(const at::Tensor& a, const at::Tensor& b, float* out);

}  // namespace sluice::ops::cpu
