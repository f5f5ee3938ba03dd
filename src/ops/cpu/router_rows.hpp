// The router's loops over tokens: from logits to weights, and back. Internal to src/ops.
#pragma once

#include "ops/runtime/processor_types.hpp"

namespace sluice::ops::cpu {

/// Turns logits [T, E] float32 into scores, in place. chosen [T, k] int64 = the k largest of each row after
/// correction and among the chosen groups, best first, of equal ones the lower index, unless they are there
/// already; what is not a number comes after all numbers, so the choice is valid when the numbers are broken.
/// weights [T, k] float32 = scale times the scores at the chosen, divided by their sum + epsilon if they are
/// normalised.
void router_rows(const at::Tensor& logits, Choice choice, const RouterOptions& options,
                 const at::Tensor& chosen, const at::Tensor& weights);

/// Gradient of the logits from that of the weights [T, k] and from what the router's own losses add: with p
/// the scores and g the gradient of p, p * (g - sum(g * p)) of a softmax, g * p * (1 - p) of sigmoids.
/// `logits` [T, E] float32 are read for a z-loss alone. As d_logits [T, E] of float32, or [T, 2 E] of
/// bfloat16: two numbers that add up to it, which keep 16 of the 24 bits of a float32 one, all first ones
/// before all second ones.
void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& logits, const at::Tensor& chosen,
                          const at::Tensor& weights, const RouterOptions& options,
                          const at::Tensor& d_weights, const RouterLossGrad& losses,
                          const at::Tensor& d_logits);

}  // namespace sluice::ops::cpu
