// The loops of the cross-entropy over tiles of logits: T tokens by consecutive entries of the vocabulary,
// from entry `first` on; float32 or bfloat16, dense. Targets [T] are int64, kNoTarget for none. Internal to
// src/ops.
#pragma once

#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// Adds a tile of logits to the sums.
void join_logits(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                 const LogitSums& sums);

/// Computes losses [T] (float64) = the cross-entropy of each token, from the sums over the whole vocabulary;
/// 0 for a token without a target.
void cross_entropies(const LogitSums& sums, const at::Tensor& targets, const at::Tensor& losses);

/// Turns a tile of logits into the gradient of the sum of coefficients [T] (float64) * cross-entropies, in place.
void logits_to_gradient(const at::Tensor& logits, std::int64_t first, const at::Tensor& targets,
                        const LogitSums& sums, const at::Tensor& coefficients);

}  // namespace sluice::ops::cpu
