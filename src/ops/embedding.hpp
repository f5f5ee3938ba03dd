// Token embedding. Its input is no float tensor, so it is a pair of plain functions instead of a node in a
// graph.
#pragma once

#include "ops/parameter.hpp"

#include <cstdint>

namespace sluice::ops {

/// Rows of table [V, H] for ids [T] (int64): [T, H] in the table's dtype. Error(kBadData) for an id outside
/// [0, V).
[[nodiscard]] at::Tensor embedding(const at::Tensor& ids, const Parameter& table);

/// No id.
inline constexpr std::int64_t kNoPadding = -1;

/// Adds row t of d_out [T, H] to row ids[t] of table.grad, for t = 0, 1, ... whatever the number of threads,
/// but where the id is `padding`. Does nothing if table.grad is undefined.
void embedding_backward(const at::Tensor& ids, const at::Tensor& d_out, const Parameter& table,
                        std::int64_t padding = kNoPadding);

}  // namespace sluice::ops
