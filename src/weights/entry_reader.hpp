// Elements of published tensors, out of their files: as they lie there, or out of codes and scales.
#pragma once

#include "base/range.hpp"
#include "io/file.hpp"
#include "weights/checkpoint_index.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Treatment of the page cache of files that have been read.
enum class SourcePages : std::uint8_t {
  kAsFound,  ///< pages of files that were not in the page cache are dropped
  kKeep,
  kDrop,
};

/// Best in the order of the files, of which it holds two open: that of elements or codes, and that of scales.
class EntryReader {
 public:
  /// `index` must outlive the reader.
  EntryReader(const CheckpointIndex& index, std::filesystem::path directory,
              SourcePages pages = SourcePages::kAsFound);

  /// Fills `out` with elements [begin, end) of an entry in its element type; of 4-bit codes `begin` is even.
  /// Besides `out` it holds 1 MiB of codes and their scales. Error(kBadData) if a file is missing or was
  /// changed since the index was read.
  void read(const CheckpointEntry& entry, Range elements, std::span<std::byte> out);

 private:
  struct OpenFile {
    InputFile file;
    int number;
    bool drops;
  };
  void read(std::optional<OpenFile>& source, int file, std::int64_t offset, std::span<std::byte> out);
  void decode(const CheckpointEntry& entry, const Encoding& encoding, Range elements, std::byte* out);

  const CheckpointIndex& index_;
  std::filesystem::path directory_;
  SourcePages pages_;
  std::optional<OpenFile> elements_, scales_;
  std::vector<std::byte> code_bytes_, scale_bytes_;
};

}  // namespace sluice
