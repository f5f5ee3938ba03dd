// Writes a file front to back with a digest of each block, in bounded memory, and leaves nothing in the page
// cache.
#pragma once

#include "base/digest.hpp"
#include "checkpoint/saved_step.hpp"
#include "device/memory.hpp"
#include "io/blocks/write_behind.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace sluice {

class BlockWriter {
 public:
  /// Bytes of staging: a block that is being written, and one that is being filled.
  static constexpr std::int64_t kStagingBytes = 2 * kSavedBlockBytes;

  /// Creates `path`; `rank` is for fault points alone.
  BlockWriter(const std::filesystem::path& path, int rank);

  /// Appends bytes; full blocks are written. Error(kIo) also for bytes appended before.
  void append(std::span<const std::byte> data);
  /// Writes the rest, and waits until the file is on disk.
  void close();

  [[nodiscard]] std::int64_t bytes() const { return written_ + filled_; }
  /// Digests of all blocks, once the writer is closed.
  [[nodiscard]] const std::vector<Digest>& digests() const { return digests_; }

 private:
  void emit();
  [[nodiscard]] std::byte* filling() const {
    return staging_.data() + written_ / kSavedBlockBytes % 2 * kSavedBlockBytes;
  }

  int rank_;
  MemoryBlock staging_;
  std::int64_t filled_ = 0;
  std::int64_t written_ = 0;
  std::vector<Digest> digests_;
  WriteBehind file_;  ///< file; declared last because it uses the staging memory
};

}  // namespace sluice
