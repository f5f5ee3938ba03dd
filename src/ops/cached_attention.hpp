// Attention of a sequence that goes on: its newest tokens over the keys and values of all.
#pragma once

#include "ops/attention.hpp"

namespace sluice::ops {

/// attention() for the queries q [n, nq, d] of the last n of m tokens over the keys and values [m, nkv, d] of
/// all of them, rows of one token dense: [n, nq, d]. Forward only, without a graph. Float32 inside, rounded
/// once.
[[nodiscard]] at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& keys,
                                          const at::Tensor& values, const AttentionForm& form);

}  // namespace sluice::ops
