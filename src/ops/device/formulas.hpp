// The operations as formulas of LibTorch functions that every device has: used if LibTorch has no faster
// kernel (device/cuda_library.hpp), and as the reference for such kernels. Internal to src/ops/device.
#pragma once

#include "ops/documents.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/processor_types.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops::device::formulas {

/// Attention and its backward pass, both without sinks.
void attention(const AttentionInputs& inputs, const AttentionRecord& made);
void attention_backward(const AttentionInputs& inputs, const AttentionRecord& made, const at::Tensor& d_out,
                        const AttentionGradients& gradients);
void matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);
void multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block, const at::Tensor& b);

}  // namespace sluice::ops::device::formulas
