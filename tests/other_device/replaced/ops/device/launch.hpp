// In place of src/ops/device/launch.hpp: own kernels as plain loops on the device that is none.
#pragma once

#include "other_device/memory.hpp"
#include "other_device/stream.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace sluice::ops::device {

/// Of no GPU.
inline int compute_capability() { return 0; }

template <class Kernel>
void launch(std::int64_t n, const Kernel& kernel) {
  other_device::queue([n, kernel] {
    const other_device::OpenPages open;
    for (std::int64_t i = 0; i < n; ++i) kernel(i);
  });
}

template <std::int64_t kThreads, class Kernel>
void launch_together(std::int64_t blocks, const Kernel& kernel) {
  other_device::queue([blocks, kernel] {
    const other_device::OpenPages open;
    for (std::int64_t block = 0; block < blocks; ++block) {
      std::array<std::optional<typename Kernel::Part>, static_cast<std::size_t>(kThreads)> parts;
      std::int32_t first = 0, second = 0;
      for (std::int64_t i = 0; i < kThreads; ++i) {
        const auto& part = parts[static_cast<std::size_t>(i)].emplace(kernel, block * kThreads + i);
        first = std::max(first, part.first_magnitude());
        second = std::max(second, part.second_magnitude());
      }
      parts.front()->set_scales(first, second);
      for (auto& part : parts) part->save();
    }
  });
}

}  // namespace sluice::ops::device
