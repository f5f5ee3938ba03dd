#include "device/memory.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/memory/memory.hpp"
#include "device/backend.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace sluice {
namespace {

/// Zeroed pages of this process, or null with errno set. Huge pages where the kernel has them: arenas are
/// touched as a whole, and faulting them in 4 KiB at a time takes longer than filling them.
std::byte* map_private(std::int64_t bytes) {
  const auto length = static_cast<std::size_t>(bytes);
  void* data = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (bytes >= 2 * kMiB) madvise(data, length, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

}  // namespace

std::int64_t available_device_bytes() { return device::occupancy().free_bytes; }

std::int64_t used_device_bytes() { return device::occupancy().used_bytes; }

std::string_view name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPrivate:
      return "private";
    case MemoryKind::kPinned:
      return "pinned";
    case MemoryKind::kDevice:
      break;
  }
  return "device";
}

MemoryBlock::MemoryBlock(MemoryBlock&& other) noexcept { *this = std::move(other); }

MemoryBlock& MemoryBlock::operator=(MemoryBlock&& other) noexcept {
  if (this == &other) return *this;
  release();
  kind_ = other.kind_;
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

MemoryBlock::~MemoryBlock() { release(); }

void MemoryBlock::release() noexcept {
  if (data_ == nullptr) return;
  if (kind_ == MemoryKind::kDevice)
    device::release(data_);
  else if (kind_ == MemoryKind::kPinned)
    device::release_pinned(data_);
  else if (munmap(data_, static_cast<std::size_t>(bytes_)) != 0)
    log::warning("munmap failed: {}", errno_text(errno));
  data_ = nullptr;
  bytes_ = 0;
}

MemoryBlock allocate(MemoryKind kind, std::int64_t bytes, std::string_view purpose) {
  SLUICE_ASSERT(bytes >= 0, "{} bytes cannot be allocated for {}", bytes, purpose);
  if (bytes == 0) return {};
  const bool on_device = kind == MemoryKind::kDevice;
  std::byte* data = nullptr;
  switch (kind) {
    case MemoryKind::kPrivate:
      data = map_private(bytes);
      break;
    case MemoryKind::kPinned:
      data = device::allocate_pinned(bytes);
      break;
    case MemoryKind::kDevice:
      data = device::allocate_zeroed(bytes);
      break;
  }
  if (data != nullptr) {
    log::debug("memory    {} for {}", format_bytes(bytes), purpose);
    return {kind, data, bytes};
  }

  const std::string cause = on_device                     ? "the device is full"
                            : kind == MemoryKind::kPinned ? "the system pins no more"
                                                          : errno_text(errno);
  const std::int64_t available = on_device ? device::occupancy().free_bytes : available_memory_bytes();
  fail({ExitCode::kTooLittle, "base.memory"},
       "cannot allocate {} ({} bytes) of {} memory for {}: {}; available {}. Use more ranks or a machine "
       "with more memory, or raise the limit on this process if there is one (load.memory_limit, ulimit "
       "-d)",
       format_bytes(bytes), bytes, name_of(kind), purpose, cause, format_bytes(available));
}

}  // namespace sluice
