// Loops that take rows of tokens and put rows together. Internal to src/ops.
#pragma once

#include "ops/buffers/token_rows.hpp"

namespace sluice::ops::cpu {

/// Loops of ops::take_rows(), ops::round_rows(), ops::sum_of_parts() and ops::list_tokens() on this
/// processor; all tensors are dense.
[[nodiscard]] at::Tensor take_rows(const at::Tensor& x, const std::vector<std::int32_t>& tokens);
void round_rows(const at::Tensor& sums, const at::Tensor& out);
[[nodiscard]] at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                                      std::int64_t token_count);
[[nodiscard]] TokenLists list_tokens(const at::Tensor& chosen, std::span<const std::uint32_t> list_of_expert,
                                     std::int64_t lists);

/// Loops of ops::code_rows() and ops::read_coded_rows(), which no device has.
[[nodiscard]] at::Tensor code_rows(const at::Tensor& x);
void read_coded_rows(const at::Tensor& codes, const at::Tensor& out);

/// Adds row t of rows [T, H] to row ids[t] of table [V, H] (float32, rows may be strided), in the order t =
/// 0, 1, ... for any number of threads; rows whose id (int64) is `padding` are left out.
void add_token_rows(const at::Tensor& rows, const at::Tensor& ids, std::int64_t padding,
                    const at::Tensor& table);

}  // namespace sluice::ops::cpu
