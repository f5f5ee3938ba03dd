// The functions of the same names in operations that every device has: used where LibTorch has no better ones
// (device/cuda_library.hpp), and as the reference for those. Internal to src/ops/device.
#pragma once

#include "ops/documents.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/processor_types.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops::device::formulas {

/// Both without sinks.
void attention(const AttentionInputs& inputs, const AttentionRecord& made);
void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients);
void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);
void multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block, const at::Tensor& b);

}  // namespace sluice::ops::device::formulas
