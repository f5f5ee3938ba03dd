// What the accelerator's runtime does for memory.cpp; CMake chooses cuda.cpp or no_cuda.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::device {

/// Zeroed memory of the current device, or null when it has not enough. Error(kBadConfig) without CUDA in the
/// build.
[[nodiscard]] std::byte* allocate_zeroed(std::int64_t bytes);
void release(std::byte* data) noexcept;

/// Bytes the current device has left.
[[nodiscard]] std::int64_t available_bytes();

}  // namespace sluice::device
