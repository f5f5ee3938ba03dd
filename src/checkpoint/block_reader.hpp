// Reads a file of a saved step, whose bytes are proved before anything uses them.
#pragma once

#include "checkpoint/saved_step.hpp"
#include "device/memory.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace sluice {

/// Blocks of kSavedBlockBytes, the last one shorter. Threads may share it.
class BlockFile {
 public:
  /// `file`, which must outlive this, in `directory`, past the page cache where the file system allows it.
  /// Error(kBadData) if it is missing or has another length.
  BlockFile(const std::filesystem::path& directory, const SavedFile& file);

  /// Fills the front of `out`, which has kSavedBlockBytes and begins at a page. Error(kBadData) naming the
  /// file, the block and what lies in it if the block is not what was saved.
  void load(std::int64_t block, std::span<std::byte> out) const;

 private:
  const SavedFile& file_;
  InputFile in_;
};

/// Holds one block.
class BlockReader {
 public:
  /// Opens a file of a checkpoint as BlockFile does.
  BlockReader(const std::filesystem::path& directory, const SavedFile& file);

  /// Fills `out` from byte `offset` on. Errors of BlockFile::load().
  void read(std::int64_t offset, std::span<std::byte> out);

  /// Reads and proves every block.
  void verify();

 private:
  void load(std::int64_t block);

  std::int64_t blocks_;
  BlockFile file_;
  MemoryBlock staging_;
  std::int64_t loaded_ = -1;  ///< block that the staging holds
};

}  // namespace sluice
