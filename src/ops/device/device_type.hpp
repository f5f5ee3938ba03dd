// The device type of LibTorch's accelerator. Internal to src/ops.
#pragma once

#include <c10/core/DeviceType.h>

namespace sluice::ops::device {

/// LibTorch's name for the accelerator that this program can compute on.
[[nodiscard]] c10::DeviceType device_type();

}  // namespace sluice::ops::device
