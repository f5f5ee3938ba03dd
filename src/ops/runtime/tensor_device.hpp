// Devices of LibTorch's tensors, by the memory that their elements lie in, and their element types.
#pragma once

#include "base/dtype.hpp"
#include "device/memory.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::ops {

/// The device of tensors in memory of this kind: the CPU, or the accelerator that this process has chosen
/// (device/devices.hpp).
[[nodiscard]] at::Device device_of(MemoryKind memory);

/// LibTorch's element type for kFloat32 or kBFloat16. Error(kInternal) for others, which nothing computes in.
[[nodiscard]] at::ScalarType scalar_type(DType dtype);

/// Options of tensors of `dtype` in memory of this kind.
[[nodiscard]] inline at::TensorOptions options_in(MemoryKind memory, at::ScalarType dtype) {
  return at::TensorOptions(device_of(memory)).dtype(dtype);
}

/// A dense tensor over memory that belongs to someone else, on the device whose memory that is.
[[nodiscard]] at::Tensor tensor_over(void* data, at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace sluice::ops
