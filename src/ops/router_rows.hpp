// The router's loops over tokens: from logits to weights, and back. Internal to src/ops.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// Turns logits [T, E] float32 into their softmax, in place.
void softmax_rows(const at::Tensor& logits);

/// chosen [T, k] int64 = the k largest of each row of [T, E], best first; of equal ones the lower index. What
/// is not a number comes after all numbers, so the choice is valid when the numbers are broken.
void choose_rows(const at::Tensor& probabilities, const at::Tensor& chosen);

/// weights [T, k] float32 = the probabilities of the chosen, divided by their sum if `normalize`.
void weigh_choices(const at::Tensor& probabilities, const at::Tensor& chosen, bool normalize,
                   const at::Tensor& weights);

/// d_logits [T, E] from the gradient of the weights [T, k] and, if it is defined, one of each token's
/// probabilities [E]: with p the softmax and g the gradient of p, p * (g - sum(g * p)).
void router_rows_backward(const at::Tensor& probabilities, const at::Tensor& chosen,
                          const at::Tensor& weights, bool normalize, const at::Tensor& d_weights,
                          const at::Tensor& probability_grad, const at::Tensor& d_logits);

}  // namespace sluice::ops
