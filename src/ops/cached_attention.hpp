// Attention of a sequence that goes on: its newest tokens over the keys and values of all.
#pragma once

#include "ops/attention.hpp"

namespace sluice::ops {

/// As attention(), for the queries q [n, nq, d] of the last n of m tokens over the keys and values [m, nkv, d] of all of
/// them, rows of one token dense: [n, nq, d]. For its result alone: no graph. Float32 inside, rounded once.
[[nodiscard]] at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& keys,
                                          const at::Tensor& values, const AttentionForm& form);

}  // namespace sluice::ops
