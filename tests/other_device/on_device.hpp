// What tests of the other device share.
#pragma once

#include "ops/runtime/tensor_device.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::test {

/// A copy there; undefined tensors stay so.
[[nodiscard]] inline at::Tensor on_device(const at::Tensor& x) {
  return x.defined() ? x.to(ops::device_of(MemoryKind::kDevice)) : x;
}

}  // namespace sluice::test
