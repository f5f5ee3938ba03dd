// Causal attention with grouped queries.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// Causal softmax(scale * q k^T) v for q [b, L, nq, d], k and v [b, L, nkv, d], where query heads h * nq/nkv
/// ... share head h of k and v: [b, L, nq, d]. Products in the dtype, softmax in float32, as transformers'
/// eager attention. Block by block of 128 queries: the scores of one block and one group of heads exist at a
/// time, at most 128 * (nq / nkv) * L elements, and backward computes them again.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   double scale);

}  // namespace sluice::ops
