// The loops that take rows to an expert and back. Internal to src/ops.
#pragma once

#include "ops/runtime/gating.hpp"
#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// out [padded, H] = the block's rows of the tokens x [N, H].
void take_rows(const at::Tensor& x, const RowBlock& block, std::int64_t choices, const at::Tensor& out);

/// sums [N, H] float32 += rows [padded, H], each times its choice's weight of weights [N, k], rounded to the
/// dtype of the rows; without weights (an undefined tensor) times 1.
void add_rows(const at::Tensor& rows, const RowBlock& block, std::int64_t choices, const at::Tensor& weights,
              const at::Tensor& sums);

/// Backward of `weight * (silu(gate) * up)`, or of what Gating makes of them, with a weight of weights [N, k]
/// for each row, in one pass and in place: gate and up [padded, I], or the even and the odd columns of one
/// matrix, become their gradients, and `d_activation`, the gradient of the weighted value, becomes that
/// value. Writes the gradients of the weights to d_weights [N, k].
void weighted_swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_activation,
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights,
                              const Gating& gating = {});

/// rows [padded, n] += the bias of the expert that each belongs to, of biases [experts, n], rounded to their
/// dtype; rows that belong to no token stay as they are.
void add_biases(const at::Tensor& rows, const RowBlock& block, const at::Tensor& biases);

/// d_bias [n] float32 += the rows of d_rows [padded, n] that are one part's, each times its choice's weight
/// of weights [N, k], rounded to the dtype of the rows; without weights (an undefined tensor) times 1.
void bias_gradient(const at::Tensor& d_rows, const RowBlock& block, const ExpertPart& part,
                   const at::Tensor& weights, const at::Tensor& d_bias);

/// d_weights [N, k] float32 at each row's choice += the row of d_rows [padded, n] times its expert's bias of
/// biases [experts, n].
void add_bias_products(const at::Tensor& d_rows, const RowBlock& block, const at::Tensor& biases,
                       const at::Tensor& d_weights);

}  // namespace sluice::ops::cpu
