// In place of src/ops/device/launch.hpp: own kernels as plain loops on the device that is none.
#pragma once

#include "other_device/memory.hpp"
#include "other_device/stream.hpp"

#include <cstdint>

namespace sluice::ops::device {

template <class Kernel>
void launch(std::int64_t n, const Kernel& kernel) {
  other_device::queue([n, kernel] {
    const other_device::OpenPages open;
    for (std::int64_t i = 0; i < n; ++i) kernel(i);
  });
}

}  // namespace sluice::ops::device
