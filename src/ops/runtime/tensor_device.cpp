#include "ops/runtime/compute_device.hpp"

#include "device/memory.hpp"
#include "ops/device/device_type.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace sluice::ops {

at::Device compute_device() {
  if (compute_memory() == MemoryKind::kPrivate) return at::kCPU;
  return c10::impl::VirtualGuardImpl(device::device_type()).getDevice();
}

at::Tensor tensor_over(void* data, at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::TensorOptions options = compute_options(dtype);
  return at::for_blob(data, sizes).options(options).target_device(options.device()).make_tensor();
}

}  // namespace sluice::ops
