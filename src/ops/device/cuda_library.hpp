// Operations that LibTorch has for CUDA tensors only: the one place that calls them. Each returns whether it
// has done the work. It returns false if the tensors are not on CUDA, this LibTorch is too old, or its
// kernels do not take this type or these sizes; the formula in device/formulas.hpp is used then. Internal to
// src/ops/device.
#pragma once

#include "ops/documents.hpp"
#include "ops/matmul.hpp"
#include "ops/runtime/processor_types.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops::device::cuda_library {

/// Computes device::attention() and its backward pass without sinks, by FlashAttention: bfloat16, head sizes
/// of 8 to 256 in multiples of 8. Packed documents are passed as bounds. Two passes give the same sums bit by
/// bit.
[[nodiscard]] bool attention(const AttentionInputs& inputs, const AttentionRecord& made);
[[nodiscard]] bool attention_backward(const AttentionInputs& inputs, const AttentionRecord& made,
                                      const at::Tensor& d_out, const AttentionGradients& gradients);

/// Computes a product of bfloat16 factors into float32, without float32 copies of the factors.
[[nodiscard]] bool matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into);

/// Computes device::multiply_groups() of bfloat16 in one kernel.
[[nodiscard]] bool multiply_groups(const at::Tensor& out, const at::Tensor& a, const RowBlock& block,
                                   const at::Tensor& b);

}  // namespace sluice::ops::device::cuda_library
