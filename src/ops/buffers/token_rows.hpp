// Rows of tokens, picked for other ranks and put together again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
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

/// Lists of tokens, one after the other.
struct TokenLists {
  std::vector<std::int64_t> counts;  ///< tokens of each list
  std::vector<std::int32_t> tokens;
};

/// For each of `lists` lists, the tokens, ascending, that chose at least one of its experts, from the choices
/// [T, k] int32; list_of_expert[e] is the list of expert e. One pass over the choices.
[[nodiscard]] TokenLists list_tokens(const at::Tensor& chosen, std::span<const std::uint32_t> list_of_expert,
                                     std::int64_t lists);

}  // namespace sluice::ops
