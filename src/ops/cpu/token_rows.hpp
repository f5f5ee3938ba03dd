// Rows of tokens, picked and put together again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace sluice::ops {

/// Rows `tokens` of x [T, width]: [tokens, width].
[[nodiscard]] at::Tensor take_rows(const at::Tensor& x, const std::vector<std::int32_t>& tokens);

/// out [n, width] = sums [n, width] (float32), rounded to the dtype of `out`.
void round_rows(const at::Tensor& sums, const at::Tensor& out);

/// Row i of `rows` [n, width] is part of token tokens[i] of T; without a list of token i modulo T. The sums
/// of each token's parts, taken in order in float32 and rounded once: [T, width] in the dtype of the rows.
[[nodiscard]] at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                                      std::int64_t token_count);

}  // namespace sluice::ops
