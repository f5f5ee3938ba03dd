// Files of a checkpoint that is to be written: which tensor lies where in which file, and their index.
#pragma once

#include "io/safetensors.hpp"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A safetensors file; its tensors follow each other without gaps behind the header.
struct WeightFile {
  std::string name;  ///< file name: "model.safetensors", or "model-00002-of-00007.safetensors"
  std::vector<SafetensorsEntry> tensors;
  std::int64_t header_bytes = 0;
  std::int64_t bytes = 0;  ///< bytes of the file, header included

  /// Header of the file: the bytes before the tensors.
  [[nodiscard]] std::string header() const;
};

/// Divides tensors (name, dtype, shape), in their order, into files with at most `max_shard_bytes` of tensors
/// each; a larger tensor gets a file of its own.
[[nodiscard]] std::vector<WeightFile> cut_into_files(std::vector<SafetensorsEntry> tensors,
                                                     std::int64_t max_shard_bytes);

/// Writes model.safetensors.index.json, which tells the file of each tensor; writes nothing for a single
/// file.
void write_weight_index(const std::filesystem::path& directory, std::span<const WeightFile> files);

}  // namespace sluice
