// Functions of the accelerator's runtime for memory.cpp and copy.cpp; CMake chooses cuda.cpp or no_cuda.cpp.
// Work is queued on the compute stream, which LibTorch's operations and our kernels are queued on as well,
// and runs in the order in which it was queued.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::device {

/// Zeroed memory of the current device, or null when it has not enough. Error(kBadConfig) without CUDA in the
/// build.
[[nodiscard]] std::byte* allocate_zeroed(std::int64_t bytes);
void release(std::byte* data) noexcept;

/// Zeroed pages of this process that the device reads and writes itself, or null when it may have no more.
/// Error(kBadConfig) without CUDA in the build.
[[nodiscard]] std::byte* allocate_pinned(std::int64_t bytes);
void release_pinned(std::byte* data) noexcept;

/// Bytes the current device has left, and has given to whomever.
struct Occupancy {
  std::int64_t free_bytes = 0;
  std::int64_t used_bytes = 0;
};
[[nodiscard]] Occupancy occupancy();

/// Whether an address is one of the device's memory.
[[nodiscard]] bool owns(const void* address);

/// Queues a copy between any two places, of which main memory must stay as it is until synchronize().
void begin_copy(void* to, const void* from, std::int64_t bytes);
/// Returns once the compute stream has done all that it was given.
void synchronize();

}  // namespace sluice::device
