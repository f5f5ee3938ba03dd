#include "ops/cpu/tensor_heap.hpp"

#include "base/bytes.hpp"
#include "base/memory/best_fit.hpp"
#include "base/round.hpp"
#include "ops/runtime/torch_version.hpp"

#include <c10/core/CPUAllocator.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

namespace sluice::ops::cpu {
namespace {

/// Alignment of tensors in bytes: a cache line, as in LibTorch's own allocator.
constexpr std::int64_t kAlignment = 64;
/// Least size in bytes of a tensor on this heap; the C library allocates smaller ones.
constexpr std::size_t kMin = 16 * kKiB;
/// Bytes by which the writable part grows.
constexpr std::int64_t kHugePage = 2 * kMiB;

/// Bytes of the address range to reserve: more than tensors can ever take. Reserved addresses use no memory.
std::int64_t addresses_to_reserve() {
  rlimit limit{};
  // A process with limited addresses (ulimit -v) reserves none.
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return 0;
  return 2 * sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

/// A range of addresses, whose lower part is writable.
class AddressRange {
 public:
  /// Reserves an address range; the range is empty if the system has no room for it.
  AddressRange() {
    const std::int64_t bytes = addresses_to_reserve();
    if (bytes <= kHugePage) return;
    void* const data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return;
    madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const auto skipped = static_cast<std::int64_t>(round_up<std::uintptr_t>(address, kHugePage) - address);
    data_ = static_cast<std::byte*>(data) + skipped;
    bytes_ = bytes - kHugePage;
  }

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::byte* at(std::int64_t place) const { return data_ + place; }
  [[nodiscard]] bool holds(const void* data) const {
    const std::less<> before;  // Gives a total order of addresses.
    return !before(data, data_) && before(data, data_ + bytes_);
  }
  [[nodiscard]] std::int64_t place_of(const void* data) const {
    return static_cast<const std::byte*>(data) - data_;
  }

  /// Makes addresses [0, end) writable; returns false if the system has no more memory.
  [[nodiscard]] bool make_writable(std::int64_t end) {
    if (end <= writable_) return true;
    const std::int64_t grown = round_up(end, kHugePage);
    if (mprotect(at(writable_), static_cast<std::size_t>(grown - writable_), PROT_READ | PROT_WRITE) != 0)
      return false;
    writable_ = grown;
    return true;
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0, writable_ = 0;
};

class TensorHeap final : public c10::Allocator {
 public:
  explicit TensorHeap(const AddressRange& range) : range_(range), blocks_(range.bytes()) {}

#if SLUICE_TORCH_ALLOCATORS_COPY
  c10::DataPtr allocate(std::size_t bytes) override { return memory(bytes); }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override {
    // The interface is const in this version of LibTorch only.
    return const_cast<TensorHeap*>(this)->memory(bytes);
  }
#endif
  /// Deleter of memory that LibTorch's operations ask for without a tensor.
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }

 private:
  c10::DataPtr memory(std::size_t bytes) {
    void* data = bytes < kMin ? nullptr : place(round_up(static_cast<std::int64_t>(bytes), kAlignment));
    // LibTorch's own allocator reports the failure when memory runs out.
    if (data == nullptr) data = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  void* place(std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const std::optional<std::int64_t> begin = blocks_.place(bytes);
    if (!begin) return nullptr;
    if (range_.make_writable(*begin + bytes)) return range_.at(*begin);
    blocks_.release(*begin);
    return nullptr;
  }

  static void release(void* data);

  std::mutex mutex_;
  AddressRange range_;
  BestFit blocks_;
};

/// The process's heap of tensors, never destroyed, because tensors may outlive it; null if there is no
/// address range for it.
TensorHeap* heap() {
  static TensorHeap* const only = [] {
    const AddressRange range;
    return range.bytes() > 0 ? new TensorHeap(range) : nullptr;
  }();
  return only;
}

void TensorHeap::release(void* data) {
  TensorHeap& of = *heap();
  if (!of.range_.holds(data)) return c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  const std::scoped_lock lock(of.mutex_);
  of.blocks_.release(of.range_.place_of(data));
}

}  // namespace

void use_tensor_heap() {
#ifndef __SANITIZE_ADDRESS__
  if (heap() != nullptr) c10::SetCPUAllocator(heap());
#endif
}

}  // namespace sluice::ops::cpu
