// Reads a file of a checkpoint; every block is verified by its digest before it is used.
#pragma once

#include "checkpoint/saved_step.hpp"
#include "device/memory.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace sluice {

/// A file as blocks of kSavedBlockBytes, the last one shorter. Threads may share the object.
class BlockFile {
 public:
  /// Opens `file`, which must outlive this object, in `directory`, past the page cache if the file system
  /// allows it. Error(kBadData) if it is missing or has another length.
  BlockFile(const std::filesystem::path& directory, const SavedFile& file);

  /// Reads a block into the front of `out`, which has kSavedBlockBytes bytes and begins on a page.
  /// Error(kBadData) with the file, the block and its content if the block is not what was saved.
  void load(std::int64_t block, std::span<std::byte> out) const;

 private:
  const SavedFile& file_;
  InputFile in_;
};

/// Reads a file from any byte on; holds one block.
class BlockReader {
 public:
  /// Opens a file of a checkpoint as BlockFile does.
  BlockReader(const std::filesystem::path& directory, const SavedFile& file);

  /// Fills `out` from byte `offset` on. Errors of BlockFile::load().
  void read(std::int64_t offset, std::span<std::byte> out);

  /// Reads and verifies every block.
  void verify();

 private:
  void load(std::int64_t block);

  std::int64_t blocks_;
  BlockFile file_;
  MemoryBlock staging_;
  std::int64_t loaded_ = -1;  ///< number of the block in the staging memory; -1: none
};

}  // namespace sluice
