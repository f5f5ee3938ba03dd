// Operations that LibTorch has for CUDA's tensors alone: the one place where they are called. Each returns
// whether it has done the work. It has not where tensors are not CUDA's, this LibTorch is too old, or its
// kernels do not take this type or these sizes; then the formula of device/formulas.hpp does. Internal to
// src/ops/device.
#pragma once

#include "ops/documents.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/processor_types.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops::device::cuda_library {

/// device::attention() and its backward without sinks, by FlashAttention: bfloat16, head sizes of 8 to 256 in
/// multiples of 8. Packed documents go by their bounds. Two passes give the same sums bit by bit.
[[nodiscard]] bool attention(const AttentionInputs& inputs, const AttentionRecord& made);
[[nodiscard]] bool attention_backward(const AttentionInputs& inputs, const AttentionRecord& made,
                                      const at::Tensor& d_out, const AttentionGradients& gradients);

/// A product of bfloat16 factors into float32, without float32 copies of them.
[[nodiscard]] bool matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);

/// device::multiply_groups() of bfloat16 in one kernel.
[[nodiscard]] bool multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block,
                                   const at::Tensor& b);

}  // namespace sluice::ops::device::cuda_library
