#include "ops/runtime/tensor_device.hpp"

#include "base/error.hpp"
#include "device/copy.hpp"
#include "ops/device/device_type.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace sluice::ops {

at::Device device_of(MemoryKind memory) {
  if (memory != MemoryKind::kDevice) return at::kCPU;
  return c10::impl::VirtualGuardImpl(device::device_type()).getDevice();
}

at::ScalarType scalar_type(DType dtype) {
  SLUICE_ASSERT(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "no training in {}", name_of(dtype));
  return dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16;
}

at::Tensor tensor_over(void* data, at::IntArrayRef sizes, at::ScalarType dtype) {
  const MemoryKind memory = is_on_device(data) ? MemoryKind::kDevice : MemoryKind::kPrivate;
  const at::TensorOptions options = options_in(memory, dtype);
  return at::for_blob(data, sizes).options(options).target_device(options.device()).make_tensor();
}

}  // namespace sluice::ops
