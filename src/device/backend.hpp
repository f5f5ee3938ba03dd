// Functions of the accelerator's runtime for memory.cpp and copy.cpp; CMake chooses cuda.cpp or no_cuda.cpp.
// Work is queued on the compute stream, which LibTorch's operations and our kernels are queued on as well,
// and runs in the order in which it was queued.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::device {

/// Zeroed memory of the current device, or null if it has too little. Error(kBadConfig) in a build without
/// CUDA.
[[nodiscard]] std::byte* allocate_zeroed(std::int64_t bytes);
void release(std::byte* data) noexcept;

/// Zeroed pages of this process that the device reads and writes itself, or null if no more can be pinned.
/// Error(kBadConfig) in a build without CUDA.
[[nodiscard]] std::byte* allocate_pinned(std::int64_t bytes);
void release_pinned(std::byte* data) noexcept;

/// Bytes that are free on the current device, and bytes in use by any process.
struct Occupancy {
  std::int64_t free_bytes = 0;
  std::int64_t used_bytes = 0;
};
[[nodiscard]] Occupancy occupancy();

/// Whether an address is in the device's memory; false in a process that has not used the device, which
/// asking does not change.
[[nodiscard]] bool owns(const void* address);

/// Queues a copy between any two places; main memory must not change until synchronize().
void begin_copy(void* to, const void* from, std::int64_t bytes);
/// Returns once the compute stream has finished all of its work.
void synchronize();

}  // namespace sluice::device
