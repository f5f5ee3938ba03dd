// A weight as the operations see it: views into buffers that someone else owns.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// A weight and where its gradient goes. Not an autograd leaf: an operation that uses it adds the gradient to
/// `grad` in its own backward and hands gradients of activations alone to autograd. Autograd runs that
/// backward only if an activation input requires a gradient, so whoever drives a layer sets requires_grad on
/// the layer's input.
///
/// `value` is float32 or bfloat16. Operations keep the tensor, never its address: its storage may be bound to
/// other memory between forward and backward, as long as the numbers are there again whenever an operation
/// runs. `grad` is a float32 view of the same shape, or undefined when no gradient is wanted. Rows are
/// contiguous in both; fused expert tensors may have gaps between experts.
struct Parameter {
  at::Tensor value;
  at::Tensor grad;
};

/// A small weight as a tensor of the graph that `anchor` belongs to, for formulas written in LibTorch's own
/// operations: a copy of `value`, whose gradient is added to `grad`. Part of a graph only if `anchor` is.
[[nodiscard]] at::Tensor in_graph(const Parameter& weight, const at::Tensor& anchor);

}  // namespace sluice::ops
