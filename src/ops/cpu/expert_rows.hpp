// The loops that take rows to an expert and back. Internal to src/ops.
#pragma once

#include "ops/runtime/gating.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// Copies the tokens of the block, rows of x [N, H], to out, whose other rows become zero.
void take_rows(const at::Tensor& x, const RowBlock& block, std::int64_t choices, const at::Tensor& out);

/// Adds rows [padded, H] to sums [N, H] (float32), each times its choice's weight in weights [N, k], rounded
/// to the dtype of the rows; times 1 if `weights` is an undefined tensor.
void add_rows(const at::Tensor& rows, const RowBlock& block, std::int64_t choices, const at::Tensor& weights,
              const at::Tensor& sums);

/// Backward of `weight * (silu(gate) * up)`, or of what Gating makes of them, with a weight of weights [N, k]
/// for each row, in one pass and in place: gate and up [padded, I], or the even and the odd columns of one
/// matrix, become their gradients, and `d_activation`, the gradient of the weighted value, becomes that
/// value. Writes the gradients of the weights to d_weights [N, k].
void weighted_swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_activation,
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights,
                              const Gating& gating = {});

/// Adds to each row of rows [padded, n] the bias of its expert, a row of biases [experts, n], rounded to the
/// dtype of the biases; padding rows stay as they are.
void add_biases(const at::Tensor& rows, const RowBlock& block, const at::Tensor& biases);

/// Adds to d_bias [n] (float32) the rows of d_rows [padded, n] in `part`, each times its choice's weight in
/// weights [N, k], rounded to the dtype of the rows; times 1 if `weights` is an undefined tensor.
void bias_gradient(const at::Tensor& d_rows, const RowBlock& block, const ExpertPart& part,
                   const at::Tensor& weights, const at::Tensor& d_bias);

/// Adds to d_weights [N, k] (float32), at each row's choice, the dot product of the row of d_rows [padded, n]
/// and its expert's row of biases [experts, n].
void add_bias_products(const at::Tensor& d_rows, const RowBlock& block, const at::Tensor& biases,
                       const at::Tensor& d_weights);

}  // namespace sluice::ops::cpu
