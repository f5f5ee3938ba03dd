// The memory of a device that is none: pages of this process, mapped twice. At a device's addresses nothing
// can be read or written, so that host code which takes them for its own dies; what stands for the device
// works on the other mapping, or has the addresses opened while it runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::other_device {

/// Of addresses; pages come as they are used.
inline constexpr std::int64_t kCapacity = std::int64_t{4} << 30;

/// Room for `bytes`, at a multiple of 4 KiB; null if there is none left. What it holds is not defined.
[[nodiscard]] std::byte* take(std::int64_t bytes);
void give_back(void* address) noexcept;
[[nodiscard]] std::int64_t free_bytes();

/// Whether an address is one of the device's.
[[nodiscard]] bool owns(const void* address);

/// Where the host finds what lies at a device's address.
[[nodiscard]] void* host_address(const void* address);
/// The same; other addresses stay what they are.
[[nodiscard]] inline void* readable(const void* address) {
  return owns(address) ? host_address(address) : const_cast<void*>(address);
}

/// While one lives, the device's own addresses can be used: for its kernels.
class OpenPages {
 public:
  OpenPages();
  ~OpenPages();
  OpenPages(const OpenPages&) = delete;
  OpenPages& operator=(const OpenPages&) = delete;
};

}  // namespace sluice::other_device
