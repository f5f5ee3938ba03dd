#include "other_device/memory.hpp"

#include "base/round.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace sluice::other_device {
namespace {

constexpr std::int64_t kPage = 4096;

class Memory {
 public:
  Memory() {
    const int file = memfd_create("other_device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kCapacity) != 0) std::abort();
    host_ = map(file, PROT_READ | PROT_WRITE);
    device_ = map(file, PROT_NONE);
    close(file);
    free_.emplace(0, kCapacity);
  }

  std::byte* take(std::int64_t bytes) {
    const std::int64_t needed = round_up(std::max<std::int64_t>(bytes, 1), kPage);
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(free_, [&](const auto& gap) { return gap.second >= needed; });
    if (found == free_.end()) return nullptr;
    const auto [begin, room] = *found;
    free_.erase(found);
    if (room > needed) free_.emplace(begin + needed, room - needed);
    used_.emplace(begin, needed);
    reached_ = std::max(reached_, begin + needed);
    return device_ + begin;
  }

  void give_back(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(static_cast<const std::byte*>(address) - device_);
    if (found == used_.end()) std::abort();  // freed twice, or another's
    auto gap = free_.emplace(found->first, found->second).first;
    used_.erase(found);
    if (const auto next = std::next(gap); next != free_.end() && gap->first + gap->second == next->first) {
      gap->second += next->second;
      free_.erase(next);
    }
    if (gap == free_.begin()) return;
    const auto before = std::prev(gap);
    if (before->first + before->second != gap->first) return;
    before->second += gap->second;
    free_.erase(gap);
  }

  std::int64_t free_bytes() {
    const std::lock_guard lock(mutex_);
    std::int64_t sum = 0;
    for (const auto& [begin, room] : free_) sum += room;
    return sum;
  }

  [[nodiscard]] bool owns(const void* address) const {
    const auto* const byte = static_cast<const std::byte*>(address);
    return byte >= device_ && byte < device_ + kCapacity;
  }
  [[nodiscard]] void* host_address(const void* address) const {
    return host_ + (static_cast<const std::byte*>(address) - device_);
  }

  void open(int change) {
    const std::lock_guard lock(mutex_);
    const int before = openings_;
    openings_ += change;
    if ((before == 0) != (openings_ == 0)) protect(openings_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

 private:
  static std::byte* map(int file, int protection) {
    void* const address = mmap(nullptr, kCapacity, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (address == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(address);
  }
  void protect(int protection) {
    if (mprotect(device_, static_cast<std::size_t>(reached_), protection) != 0) std::abort();
  }

  std::mutex mutex_;
  std::byte *host_ = nullptr, *device_ = nullptr;
  std::map<std::int64_t, std::int64_t> free_, used_;  ///< begin: bytes
  std::int64_t reached_ = 0;                          ///< the end of what was ever used
  int openings_ = 0;
};

/// Outlives all tensors.
Memory& memory() {
  static auto* const only = new Memory;
  return *only;
}

}  // namespace

std::byte* take(std::int64_t bytes) { return memory().take(bytes); }

void give_back(void* address) noexcept { memory().give_back(address); }

std::int64_t free_bytes() { return memory().free_bytes(); }

bool owns(const void* address) { return memory().owns(address); }

void* host_address(const void* address) { return memory().host_address(address); }

OpenPages::OpenPages() { memory().open(1); }

OpenPages::~OpenPages() { memory().open(-1); }

}  // namespace sluice::other_device
