// Token embedding. Its input is no float tensor, so it is a pair of plain functions instead of a node in a
// graph.
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops {

/// Rows of table [V, H] for ids [T] (int64): [T, H] in the table's dtype. Error(kBadData) for an id outside
/// [0, V).
[[nodiscard]] at::Tensor embedding(const at::Tensor& ids, const Parameter& table);

/// No id is padding.
inline constexpr std::int64_t kNoPadding = -1;

/// Adds row t of d_out [T, H] to row ids[t] of table.grad, for t = 0, 1, ... whatever the number of threads,
/// but where the id is `padding`. Does nothing if table.grad is undefined.
void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const Parameter& table,
                        std::int64_t padding = kNoPadding);

/// The ids in some tensors (int64), ascending, each once.
[[nodiscard]] std::vector<std::int64_t> distinct_ids(std::span<const at::Tensor> ids);

/// Rows of a table's gradient: row i of `grad` [rows, H] (float32) is that of id rows[i], which ascend.
struct TableRows {
  std::span<const std::int64_t> rows;
  at::Tensor grad;
};

/// embedding_backward() into some rows of the gradient; they contain all ids.
void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const TableRows& table,
                        std::int64_t padding = kNoPadding);

}  // namespace sluice::ops
