// Causal attention as in ops::attention(): q [b, L, nq, d], k and v [b, L, nkv, d], dense, of one dtype.
// Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// Computes the output and logsumexp of `made`. The logsumexp is over keys and sinks; each processor chooses
/// its base. Results of queries before the first wanted one are undefined; these queries must be numbers, as some are
/// computed with it.
void attention(const AttentionInputs& inputs, const AttentionRecord& made, std::int64_t first_query = 0);

/// Computes the backward pass from the gradient of made.out (dO) and what attention() recorded.
void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients);

}  // namespace sluice::ops::cpu
