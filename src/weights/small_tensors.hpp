// Reads tensors of some bytes: the shapes and numbers that quantised weights have beside their codes.
#pragma once

#include "io/file.hpp"
#include "weights/checkpoint_index.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// Keeps the file open that was read last. The index and the directory, which has its files, must outlive the
/// object.
class SmallTensors {
 public:
  SmallTensors(const CheckpointIndex& index, const std::filesystem::path& directory)
      : index_(index), directory_(directory) {}

  /// Reads the first bytes of a tensor.
  void read(const CheckpointEntry& tensor, std::span<std::byte> bytes);
  /// Whether a tensor may hold a shape: up to eight integers.
  [[nodiscard]] static bool may_hold_shape(const CheckpointEntry& tensor);
  /// The shape in a tensor for which may_hold_shape() is true.
  [[nodiscard]] std::vector<std::int64_t> read_shape(const CheckpointEntry& tensor);

 private:
  const CheckpointIndex& index_;
  const std::filesystem::path& directory_;
  std::optional<InputFile> file_;
  int open_ = -1;  ///< index of the open file; -1: none
};

}  // namespace sluice
