// What tests of the other device share.
#pragma once

#include "ops/runtime/compute_device.hpp"

#include <ATen/core/Tensor.h>

namespace sluice::test {

/// A copy there; undefined tensors stay so.
[[nodiscard]] inline at::Tensor on_device(const at::Tensor& x) {
  return x.defined() ? x.to(ops::compute_device()) : x;
}

}  // namespace sluice::test
