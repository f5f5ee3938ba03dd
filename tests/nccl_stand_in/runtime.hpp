// What the parts of the stand-in for CUDA's runtime share.
#pragma once

#include <cstddef>

namespace sluice::stand_in {

/// Memory of each GPU.
inline constexpr std::size_t kGpuBytes = std::size_t{1} << 30;

/// What stands for it: the heap, unless a program brings its own memory before anything is allocated.
struct DeviceMemory {
  void* (*allocate)(std::size_t bytes);  ///< null: none is left
  void (*release)(void* data);
  bool (*owns)(const void* data);
  void* (*readable)(
      const void* data);  ///< where the host finds what lies at an address; others stay what they are
};
void use_memory(const DeviceMemory& memory);

[[nodiscard]] void* readable(const void* data);

}  // namespace sluice::stand_in
