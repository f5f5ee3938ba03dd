// Causal attention with grouped queries.
#pragma once

#include "ops/documents.hpp"

namespace sluice::ops {

/// Causal softmax(scale * q k^T) v for q [b, L, nq, d], k and v [b, L, nkv, d], where query heads h * nq/nkv
/// ... share head h of k and v: [b, L, nq, d]. A token sees itself and earlier ones of its document. Products
/// in the dtype, softmax in float32, as transformers' eager attention. Block by block of 128 queries: the
/// scores of one block and one group of heads exist at a time, at most 128 * (nq / nkv) * L elements, and
/// backward computes them again. Keys that no query of a block sees are left out, so that packed documents
/// cost what they would cost alone.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   double scale, const Documents& documents = {});

}  // namespace sluice::ops
