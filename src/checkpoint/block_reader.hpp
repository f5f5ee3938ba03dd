// Reads parts of a saved file, block by block, each proven by its digest before a byte of it is used.
#pragma once

#include "checkpoint/saved_step.hpp"
#include "device/memory.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace sluice {

class BlockReader {
 public:
  /// `file`, which must outlive the reader, in `directory`. Error(kBadData) if it is missing or has another length.
  /// Holds one block of kSavedBlockBytes. What was not in the page cache before does not stay there.
  BlockReader(const std::filesystem::path& directory, const SavedFile& file);

  /// Fills `out` from byte `offset` on. Error(kBadData) naming the file, the block and what lies in it if the block is not
  /// what was saved.
  void read(std::int64_t offset, std::span<std::byte> out);

  /// Reads and proves every block.
  void verify();

 private:
  void load(std::int64_t block);

  const SavedFile& file_;
  InputFile in_;
  MemoryBlock staging_;
  std::int64_t loaded_ = -1;  ///< block that the staging holds
};

}  // namespace sluice
