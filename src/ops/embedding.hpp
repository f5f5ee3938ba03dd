// Token embedding. Its input is not a float tensor, so it is a pair of plain functions instead of a graph
// node.
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops {

/// Embeddings: rows of table [V, H] for ids [T] (int64), as [T, H] in the table's dtype. Error(kBadData) for
/// an id outside [0, V).
[[nodiscard]] at::Tensor embedding(const at::Tensor& ids, const Parameter& table);

/// Rows of a table [V, H], or of its gradient (float32): row i of `values` [rows, H] belongs to id rows[i]; `rows` is
/// ascending.
struct TableRows {
  std::span<const std::int64_t> rows;
  at::Tensor values;
};

/// embedding() from the rows of a table of `vocabulary` rows that the ids inside it need.
[[nodiscard]] at::Tensor embedding(const at::Tensor& ids, const TableRows& table, std::int64_t vocabulary);

/// Padding id that no token has: every id counts.
inline constexpr std::int64_t kNoPadding = -1;

/// Adds row t of d_out [T, H] to row ids[t] of table.grad, for t = 0, 1, ... in this order for any number of
/// threads, except where the id is `padding`. Does nothing if table.grad is undefined.
void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const Parameter& table,
                        std::int64_t padding = kNoPadding);

/// Distinct ids in some tensors (int64), ascending.
[[nodiscard]] std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids);

/// embedding_backward() into some rows of the gradient, which must include every id.
void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const TableRows& table,
                        std::int64_t padding = kNoPadding);

}  // namespace sluice::ops
