// Where a step computes.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// The device whose memory holds weights, activations, gradients and the optimizer's state: main memory.
[[nodiscard]] inline at::Device compute_device() { return at::kCPU; }

/// Of tensors of `dtype` there.
[[nodiscard]] inline at::TensorOptions compute_options(at::ScalarType dtype) {
  return at::TensorOptions(compute_device()).dtype(dtype);
}

}  // namespace sluice::ops
