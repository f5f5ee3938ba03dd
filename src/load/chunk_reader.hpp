// Reads a plan's chunks in order and decides what the page cache keeps of them.
#pragma once

#include "io/file.hpp"
#include "load/load_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

namespace sluice {

/// What becomes of the page cache behind the reader. On unified memory it competes with the model.
enum class CachePolicy : std::uint8_t {
  kAuto,  ///< keep what was cached before, drop what the load brought in
  kKeep,
  kDrop,
};

class ChunkReader {
 public:
  /// `plan` must outlive the reader. Files are opened one at a time, each at its first read.
  ChunkReader(const LoadPlan& plan, std::filesystem::path directory, CachePolicy policy)
      : plan_(plan), directory_(std::move(directory)), policy_(policy) {}

  /// Fills the beginning of `out` with a read. Calls `between` after every MiB, so that messages keep moving.
  /// Error(kBadData) if the file is not as long as it was when the plan was made.
  void read(const Read& read, std::span<std::byte> out, const std::function<void()>& between);

 private:
  void open(int file);
  const LoadPlan& plan_;
  std::filesystem::path directory_;
  CachePolicy policy_;
  std::optional<InputFile> file_;
  int open_ = -1;
  bool drop_ = false;
};

}  // namespace sluice
