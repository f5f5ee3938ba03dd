// Causal attention, as ops::attention(): q [b, L, nq, d], k and v [b, L, nkv, d], dense, of one dtype.
// Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// Fills `made`. Its logsumexp is over keys and sinks; in which base, each processor decides for itself.
/// Queries before the first that is wanted are not read, and what is made of them says nothing.
void attention(const AttentionInputs& inputs, const AttentionRecord& made, std::int64_t first_query = 0);

/// Backward pass from the gradient of made.out (dO) and what attention() recorded.
void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients);

}  // namespace sluice::ops::cpu
