// Numbers and texts as one run of bytes, for broadcasts and digests between ranks of one job. Not a file
// format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Serializes numbers (8 bytes each) and texts, one after the other.
class ByteWriter {
 public:
  void number(std::int64_t value);
  void text(std::string_view value);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a ByteWriter wrote, in the same order; running past the end is Error(kInternal). `bytes` must
/// outlive it.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  [[nodiscard]] std::int64_t number();
  [[nodiscard]] std::string text();
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  std::string_view next(std::int64_t count);
  std::string_view rest_;
};

}  // namespace sluice
