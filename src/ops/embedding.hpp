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

/// Padding id that no token has: every id counts.
inline constexpr std::int64_t kNoPadding = -1;

/// Adds row t of d_out [T, H] to row ids[t] of table.grad, for t = 0, 1, ... in this order for any number of
/// threads, except where the id is `padding`. Does nothing if table.grad is undefined.
void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const Parameter& table,
                        std::int64_t padding = kNoPadding);

/// Distinct ids in some tensors (int64), ascending.
[[nodiscard]] std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids);

/// Rows of a table's gradient: row i of `grad` [rows, H] (float32) belongs to id rows[i]; `rows` is
/// ascending.
struct TableRows {
  std::span<const std::int64_t> rows;
  at::Tensor grad;
};

/// embedding_backward() into some rows of the gradient, which must include every id.
void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const TableRows& table,
                        std::int64_t padding = kNoPadding);

}  // namespace sluice::ops
