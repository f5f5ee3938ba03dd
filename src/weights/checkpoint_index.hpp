// What a Hugging Face model directory holds: its safetensors files and the tensors in them. Headers only, no
// weights.
#pragma once

#include "base/dtype.hpp"
#include "comm/communicator.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct CheckpointFile {
  std::string name;  ///< inside the directory
  std::int64_t bytes = 0;
};

/// One published tensor: bytes [begin, begin + bytes) of files[file].
struct CheckpointEntry {
  std::string name;
  int file = 0;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

struct CheckpointIndex {
  std::string directory;  ///< as it was named, for messages
  std::vector<CheckpointFile> files;
  std::vector<CheckpointEntry> entries;  ///< ordered by file, then by begin
  std::vector<std::string> warnings;     ///< oddities that do not hinder a load

  /// For a broadcast to ranks that may not see the files; exact both ways.
  [[nodiscard]] std::string to_bytes() const;
  [[nodiscard]] static CheckpointIndex from_bytes(std::string_view bytes);
};

/// Whether there are weights beside the config.json of a model directory, in whatever state.
[[nodiscard]] bool holds_weights(const std::filesystem::path& directory);

/// Reads `model.safetensors`, or `model.safetensors.index.json` and the header of every file it names; links
/// are followed. Error(kBadData) with all that is wrong with the directory in one text: files missing or
/// broken, tensors missing, in two files, or not where the index says. Error(kIo) if the system refuses.
[[nodiscard]] CheckpointIndex read_checkpoint_index(const std::filesystem::path& directory);

/// Collective over `comm`. Rank 0 reads, every rank gets the index; if rank 0 fails, every rank throws its
/// error.
[[nodiscard]] CheckpointIndex share_checkpoint_index(Communicator& comm,
                                                     const std::filesystem::path& directory);

}  // namespace sluice
