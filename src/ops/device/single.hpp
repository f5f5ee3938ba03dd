// Conversion to single precision. Internal to src/ops/device.
#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::ops::device {

/// Returns x as float32, the type in which sums and functions are computed.
[[nodiscard]] inline at::Tensor single(const at::Tensor& x) { return x.to(at::kFloat); }

}  // namespace sluice::ops::device
