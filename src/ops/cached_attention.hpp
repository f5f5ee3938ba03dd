// Attention of a sequence that is continued: its newest tokens attend to the keys and values of all its
// tokens.
#pragma once

#include "ops/attention.hpp"

namespace sluice::ops {

/// attention() for the queries q [n, nq, d] of the last n of m tokens over the keys [m, nkv, d] and values
/// [m, nkv, e] of all m tokens; the rows of a token are dense. The result is [n, nq, e]. Forward only, records no graph.
/// Computed in float32, rounded once.
[[nodiscard]] at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& keys,
                                          const at::Tensor& values, const AttentionForm& form);

}  // namespace sluice::ops
