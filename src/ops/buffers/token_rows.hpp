// Rows of tokens: picked for other ranks, and put together again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::ops {

/// Copies rows `tokens` of x [T, width] to a tensor [tokens, width].
[[nodiscard]] at::Tensor take_rows(const at::Tensor& x, const std::vector<std::int32_t>& tokens);

/// Rounds sums [n, width] (float32) to the dtype of `out` [n, width].
void round_rows(const at::Tensor& sums, const at::Tensor& out);

/// Adds up each token's parts: row i of `rows` [n, width] is part of token tokens[i] of T tokens, or without
/// a list of token i modulo T. Parts are added in order in float32 and rounded once; the result is [T, width]
/// in the dtype of the rows.
[[nodiscard]] at::Tensor sum_of_parts(const at::Tensor& rows, const std::vector<std::int32_t>& tokens,
                                      std::int64_t token_count);

/// Rounds rows x [n, width] in main memory to codes [n, TokenRows(width).bytes()], of bytes.
[[nodiscard]] at::Tensor code_rows(const at::Tensor& x);

/// Reads codes [n, bytes] of code_rows() to `out` [n, width], float32 or bfloat16.
void read_coded_rows(const at::Tensor& codes, const at::Tensor& out);

/// Lists of tokens, stored one after the other.
struct TokenLists {
  std::vector<std::int64_t> counts;  ///< number of tokens in each list
  std::vector<std::int32_t> tokens;
};

/// Lists the tokens that chose at least one of a list's experts, ascending, for each of `lists` lists, from
/// the choices [T, k] int32; list_of_expert[e] is the list of expert e. Makes one pass over the choices.
[[nodiscard]] TokenLists list_tokens(const at::Tensor& chosen, std::span<const std::uint32_t> list_of_expert,
                                     std::int64_t lists);

}  // namespace sluice::ops
