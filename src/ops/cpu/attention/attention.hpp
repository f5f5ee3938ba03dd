// Causal attention, as ops::attention(): q [b, L, nq, d], k and v [b, L, nkv, d], dense, of one dtype.
// Internal to src/ops.
#pragma once

#include "ops/documents.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// out, as q, and log_sums [b, nq, L] float32, in which backward finds the logarithm of each query's sum; to
/// what base is the processor's own affair. Queries before the first that is wanted are not read, and what is made of them
/// says nothing.
void attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
               const Documents& documents, const at::Tensor& out, const at::Tensor& log_sums,
               std::int64_t first_query = 0);

/// From the gradient of out, and what attention() made.
void attention_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                        const Documents& documents, const at::Tensor& out, const at::Tensor& log_sums,
                        const at::Tensor& d_out, const AttentionGradients& gradients);

}  // namespace sluice::ops::cpu
