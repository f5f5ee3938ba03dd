// Allocation of large blocks. Arenas and buffers ask here, so that other kinds of memory need no second
// arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace sluice {

/// Kind of memory that a block is allocated in.
enum class MemoryKind : std::uint8_t {
  kPrivate,  ///< pages of this process alone, zero until written
  kPinned,   ///< pages of this process that the accelerator reads and writes itself
  kDevice,   ///< the accelerator's memory
};
[[nodiscard]] std::string_view name_of(MemoryKind kind);

/// Free and used bytes of the device that this process has chosen (device/devices.hpp), used by any process; 0
/// without CUDA in the build.
[[nodiscard]] std::int64_t available_device_bytes();
[[nodiscard]] std::int64_t used_device_bytes();

/// A block of memory that the object owns. Move-only; returns its memory to the system, not to a cache.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  MemoryBlock(MemoryBlock&& other) noexcept;
  MemoryBlock& operator=(MemoryBlock&& other) noexcept;
  ~MemoryBlock();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }

 private:
  friend MemoryBlock allocate(MemoryKind kind, std::int64_t bytes, std::string_view purpose);
  MemoryBlock(MemoryKind kind, std::byte* data, std::int64_t bytes)
      : kind_(kind), data_(data), bytes_(bytes) {}
  void release() noexcept;
  MemoryKind kind_ = MemoryKind::kPrivate;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Allocates `bytes` bytes, page aligned and zero. Error(kTooLittle) with the purpose, the bytes asked for
/// and the bytes available. kPinned and kDevice in a build without CUDA: Error(kBadConfig).
[[nodiscard]] MemoryBlock allocate(MemoryKind kind, std::int64_t bytes, std::string_view purpose);

}  // namespace sluice
