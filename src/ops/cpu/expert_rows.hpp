// The loops that take rows to an expert and back. Internal to src/ops.
#pragma once

#include "ops/runtime/processor_types.hpp"

#include <cstdint>

namespace sluice::ops::cpu {

/// out [padded, H] = the block's rows of the tokens x [N, H].
void take_rows(const at::Tensor& x, const RowBlock& block, std::int64_t choices, const at::Tensor& out);

/// sums [N, H] float32 += rows [padded, H], each times its choice's weight of weights [N, k], rounded to the
/// dtype of the rows; without weights (an undefined tensor) times 1.
void add_rows(const at::Tensor& rows, const RowBlock& block, std::int64_t choices, const at::Tensor& weights,
              const at::Tensor& sums);

/// Backward of `weight * (silu(gate) * up)` with a weight of weights [N, k] for each row, in one pass and in
/// place: gate and up [padded, I] become their gradients, and `d_activation`, the gradient of the weighted
/// value, becomes that value. Writes the gradients of the weights to d_weights [N, k].
void weighted_swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d_activation,
                              const RowBlock& block, const at::Tensor& weights, const at::Tensor& d_weights);

}  // namespace sluice::ops::cpu
