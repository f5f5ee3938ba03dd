// Writes a file front to back with a digest of each block, in bounded memory, leaving no page cache.
#pragma once

#include "base/digest.hpp"
#include "checkpoint/saved_step.hpp"
#include "device/memory.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <span>
#include <vector>

namespace sluice {

class BlockWriter {
 public:
  /// Creates `path`; `rank` is for fault points alone. Holds two blocks of kSavedBlockBytes: one is written while the next one is
  /// filled.
  BlockWriter(const std::filesystem::path& path, int rank);

  /// Appends. What fills a block goes to the system. Error(kIo) also for what was appended before.
  void append(std::span<const std::byte> data);
  /// Writes what is left, and waits until all of it is on disk.
  void close();

  [[nodiscard]] std::int64_t bytes() const { return written_ + filled_; }
  /// Of all blocks, once closed.
  [[nodiscard]] const std::vector<Digest>& digests() const { return digests_; }

 private:
  void emit();
  void write(std::int64_t offset, std::span<const std::byte> block);
  [[nodiscard]] std::byte* filling() const {
    return staging_.data() + written_ / kSavedBlockBytes % 2 * kSavedBlockBytes;
  }

  bool is_direct_ = true;
  OutputFile file_;
  int rank_;
  MemoryBlock staging_;
  std::int64_t filled_ = 0;
  std::int64_t written_ = 0;
  std::vector<Digest> digests_;
  std::future<void> writing_;  ///< of the block before; last: it uses the rest
};

}  // namespace sluice
