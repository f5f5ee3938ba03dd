#include "device/copy.hpp"

#include "device/backend.hpp"

#include <cstring>

namespace sluice {

bool is_on_device(const void* address) { return address != nullptr && device::owns(address); }

void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  const CopiedRange range{to, from, bytes};
  copy_ranges({&range, 1});
}

void copy_ranges(std::span<const CopiedRange> ranges) {
  bool by_device = false;
  for (const CopiedRange& range : ranges) {
    if (range.bytes == 0) continue;
    if (is_on_device(range.to) || is_on_device(range.from)) {
      device::begin_copy(range.to, range.from, range.bytes);
      by_device = true;
    } else {
      std::memcpy(range.to, range.from, static_cast<std::size_t>(range.bytes));
    }
  }
  if (by_device) device::synchronize();
}

HostBytes::HostBytes(const std::byte* data, std::int64_t bytes) : data_(data) {
  if (!is_on_device(data)) return;
  copy_.resize(static_cast<std::size_t>(bytes));
  copy_bytes(copy_.data(), data, bytes);
  data_ = copy_.data();
}

HostDraft::HostDraft(std::byte* data, std::int64_t bytes) : target_(data) {
  if (is_on_device(data)) copy_.resize(static_cast<std::size_t>(bytes));
}

void HostDraft::save() {
  if (!copy_.empty()) copy_bytes(target_, copy_.data(), static_cast<std::int64_t>(copy_.size()));
}

}  // namespace sluice
