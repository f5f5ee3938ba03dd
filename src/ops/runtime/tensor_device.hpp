// The device that a step computes on.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// The device whose memory holds weights, activations, gradients and the optimizer's state: that of
/// compute_memory().
[[nodiscard]] at::Device compute_device();

/// Whether this process computes in main memory.
[[nodiscard]] inline bool computes_on_cpu() { return compute_device().is_cpu(); }

/// Options of tensors of `dtype` on that device.
[[nodiscard]] inline at::TensorOptions compute_options(at::ScalarType dtype) {
  return at::TensorOptions(compute_device()).dtype(dtype);
}

/// A dense tensor over memory there, which belongs to someone else.
[[nodiscard]] at::Tensor tensor_over(void* data, at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace sluice::ops
