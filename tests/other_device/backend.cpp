// In place of src/device/cuda.cpp.
#include "device/backend.hpp"

#include "other_device/memory.hpp"
#include "other_device/stream.hpp"

#include <cstdlib>
#include <cstring>

namespace sluice::device {

std::byte* allocate_zeroed(std::int64_t bytes) {
  std::byte* const data = other_device::take(bytes);
  if (data != nullptr)
    other_device::queue(
        [data, bytes] { std::memset(other_device::host_address(data), 0, static_cast<std::size_t>(bytes)); });
  return data;
}

void release(std::byte* data) noexcept { other_device::give_back(data); }

std::byte* allocate_pinned(std::int64_t bytes) {
  constexpr std::size_t kPage = 4096;
  const auto room = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  void* const data = std::aligned_alloc(kPage, room);
  if (data != nullptr) std::memset(data, 0, room);
  return static_cast<std::byte*>(data);
}

void release_pinned(std::byte* data) noexcept { std::free(data); }

Occupancy occupancy() {
  return {other_device::free_bytes(), other_device::kCapacity - other_device::free_bytes()};
}

bool owns(const void* address) { return other_device::owns(address); }

void begin_copy(void* to, const void* from, std::int64_t bytes) {
  other_device::queue([=] {
    std::memcpy(other_device::readable(to), other_device::readable(from), static_cast<std::size_t>(bytes));
  });
}

void synchronize() { other_device::finish(); }

}  // namespace sluice::device
