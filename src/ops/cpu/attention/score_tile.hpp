// The loops between the products of attention, on one tile of scores: queries of all heads that share one key
// head, against some consecutive keys. Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace sluice::ops::cpu {

/// Rows of a sequence's heads [L, heads, d] that one block works on: row h * positions + p is head `head` + h
/// at position `begin` + p.
struct HeadRows {
  std::int64_t head;
  std::int64_t group;  ///< Number of query heads that share the key head.
  std::int64_t begin;
  std::int64_t positions;
  const std::int64_t* document;  ///< Document of each position, see document_of().

  [[nodiscard]] std::int64_t rows() const { return group * positions; }
};

/// Returns the block's rows of x [L, heads, d], dense: [rows, d].
at::Tensor take_rows(const at::Tensor& x, const HeadRows& block);

/// Writes `rows` [rows, d] (float32), each times its factor (unscaled if `factors` is null), to the block's
/// rows of x [L, heads, d], rounded to x's dtype.
void put_rows(const at::Tensor& rows, const float* factors, const at::Tensor& x, const HeadRows& block);

/// A softmax over tiles of keys, one after the other.
struct RunningSoftmax {
  float* largest;  ///< Largest scaled score of each row, [rows]; begins at -infinity.
  float* sum;      ///< Sum of e^(score - largest) of each row, [rows]; begins at 0.
  float* factor;   ///< Factor by which the last tile scales earlier results, [rows].
};

/// Turns scores [rows, n] of queries against the keys from `first_key` on into e^(scale * score - largest),
/// in place, with 0 for keys that a query does not attend to; adds them to the softmax.
void join_scores(const at::Tensor& scores, const HeadRows& block, std::int64_t first_key, double scale,
                 const RunningSoftmax& softmax);

/// Computes sum [rows, d] (float32) = factor * sum + product, row by row.
void scale_and_add(const at::Tensor& sum, const float* factor, const at::Tensor& product);

/// Values of a block's queries that the backward pass needs.
struct QueryRows {
  const float* logsumexp;  ///< Log of the sum of e^(scale * score) over all keys, [rows].
  const float* delta;      ///< D of the backward pass, the row sum of dO * O, [rows].
};

/// Turns transposed scores [n, rows] into probabilities, and transposed gradients of the probabilities into
/// gradients of the unscaled scores; in place.
void score_gradients(const at::Tensor& scores, const at::Tensor& grads, const HeadRows& block,
                     std::int64_t first_key, double scale, const QueryRows& queries);

/// Computes out [rows]: the dot product of each row of a and b [rows, d], whose rows may be strided.
void row_dots(const at::Tensor& a, const at::Tensor& b, float* out);

}  // namespace sluice::ops::cpu
