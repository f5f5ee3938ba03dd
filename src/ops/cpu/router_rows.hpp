// The router's loops over tokens: from logits to weights, and the backward pass. Internal to src/ops.
#pragma once

#include "ops/runtime/processor_types.hpp"

namespace sluice::ops::cpu {

/// Turns logits [T, E] (float32) into scores, in place. Unless the choice is given, sets chosen [T, k]
/// (int64) = the k largest corrected scores, or logits, of each row among the chosen groups, best first, the lower
/// index first among equals; NaN ranks after all numbers, so that the choice is valid even for broken logits. Sets
/// weights [T, k] (float32) = scale times the scores of the chosen experts, divided by their sum + epsilon if
/// the weights are normalised.
void router_rows(const at::Tensor& logits, Choice choice, const RouterOptions& options,
                 const at::Tensor& chosen, const at::Tensor& weights);

/// Computes the gradient of the logits from the gradient of the weights [T, k] and of the router's own
/// losses: with scores p and g the gradient of p, p * (g - sum(g * p)) for a softmax, g * p * (1 - p) for
/// sigmoids. `logits` [T, E] (float32) is read for a z-loss only. d_logits is [T, E] of float32, or [T, 2 E]
/// of bfloat16: each gradient is then a sum of two bfloat16 numbers, which keep 16 of the 24 bits of a
/// float32; all first numbers of a row come before all second ones.
void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& logits, const at::Tensor& chosen,
                          const at::Tensor& weights, const RouterOptions& options,
                          const at::Tensor& d_weights, const RouterLossGrad& losses,
                          const at::Tensor& d_logits);

}  // namespace sluice::ops::cpu
