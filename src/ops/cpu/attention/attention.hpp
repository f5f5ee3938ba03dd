// Causal attention, as ops::attention(): q [b, L, nq, d], k and v [b, L, nkv, d], dense, of one dtype.
// Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// Fills `made`, whose log_sums are those of keys and sinks, to what base is the processor's own affair. Queries before the first
/// that is wanted are not read, and what is made of them says nothing.
void attention(const AttentionInputs& inputs, const AttentionRecord& made, std::int64_t first_query = 0);

/// From the gradient of made.out, and what attention() made.
void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients);

}  // namespace sluice::ops::cpu
