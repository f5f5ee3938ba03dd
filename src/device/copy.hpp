// Bytes between main memory and the memory that is computed in, which host code never touches by pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Whether an address is in a device's memory; false for null.
[[nodiscard]] bool is_on_device(const void* address);

/// Copies between any two places that do not overlap, after all work that was queued before; finished on
/// return.
void copy_bytes(void* to, const void* from, std::int64_t bytes);

/// A range of bytes to copy; copies of several ranges are queued together and waited for once.
struct CopiedRange {
  void* to;
  const void* from;
  std::int64_t bytes;
};
void copy_ranges(std::span<const CopiedRange> ranges);

/// Bytes for host code to read: in place, or copied to main memory if they lie in a device's memory.
class HostBytes {
 public:
  HostBytes(const std::byte* data, std::int64_t bytes);
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;
  [[nodiscard]] const std::byte* data() const { return data_; }

 private:
  std::vector<std::byte> copy_;
  const std::byte* data_;
};

/// Bytes for host code to write, all of them: in place, or in main memory, from where save() copies them to a
/// device's memory.
class HostDraft {
 public:
  HostDraft(std::byte* data, std::int64_t bytes);
  HostDraft(const HostDraft&) = delete;
  HostDraft& operator=(const HostDraft&) = delete;
  [[nodiscard]] std::byte* data() { return copy_.empty() ? target_ : copy_.data(); }
  void save();

 private:
  std::vector<std::byte> copy_;
  std::byte* target_;
};

}  // namespace sluice
