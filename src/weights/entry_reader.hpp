// Reads elements of published tensors from their files, as they are or from codes and scales.
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

/// What happens to files in the page cache after they were read.
enum class SourcePages : std::uint8_t {
  kAsFound,  ///< files that were not in the page cache are dropped from it
  kKeep,
  kDrop,
};

/// Reader of entries, best used in the order of the files; holds two files open: of elements or codes, and of
/// scales.
class EntryReader {
 public:
  /// `index` must outlive the reader.
  EntryReader(const CheckpointIndex& index, std::filesystem::path directory,
              SourcePages pages = SourcePages::kAsFound);

  /// Reads elements [begin, end) of an entry into `out`, in its element type; for 4-bit codes `begin` is
  /// even. Holds 1 MiB of codes and their scales besides. Error(kBadData) if a file is missing or was changed
  /// since the index was read.
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
