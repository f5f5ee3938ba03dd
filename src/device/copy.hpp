// Bytes between main memory and the memory that is computed in, which host code never touches by pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Whether an address is one of a device's memory. Never without a device to compute on.
[[nodiscard]] bool is_on_device(const void* address);

/// Copies between any two places that do not overlap, after all that was queued before. Done on return.
void copy_bytes(void* to, const void* from, std::int64_t bytes);

/// A range of bytes to copy; copies of several ranges are queued together and waited for once.
struct CopiedRange {
  void* to;
  const void* from;
  std::int64_t bytes;
};
void copy_ranges(std::span<const CopiedRange> ranges);

/// Bytes to be read by host code: where they lie, or copied there from a device's memory.
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

/// Bytes to be written by host code, of which all are: where they are to lie, or from there to a device's
/// memory by save().
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
