// Blocks of a saved step's files, read ahead.
#pragma once

#include "checkpoint/block_reader.hpp"
#include "comm/wait.hpp"
#include "io/blocks/block_ring.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sluice {

/// A block of one of SavedStep::files.
struct BlockPlace {
  int file = 0;
  std::int64_t block = 0;
  bool operator==(const BlockPlace&) const = default;
};

/// Two threads read into four blocks of kSavedBlockBytes.
class BlockStream {
 public:
  /// `blocks` of `step` in `directory`, both of which must outlive this. `rank` is for messages.
  BlockStream(const SavedStep& step, const std::filesystem::path& directory, std::vector<BlockPlace> blocks,
              int rank, double limit_seconds);

  /// The first byte of the block, which is kept until that of another is asked for. Blocks are asked for in
  /// their order. Errors of BlockFile; Error(kInternal) if the disk does not give it within `limit_seconds`.
  [[nodiscard]] const std::byte* block(const BlockPlace& place);

 private:
  static constexpr std::size_t kSlots = 4;
  static constexpr int kThreads = 2;

  [[nodiscard]] std::span<std::byte> slot(std::size_t index) const;
  void wait_for_current();
  void fill(std::size_t read, std::size_t index);
  std::shared_ptr<const BlockFile> open(int file);

  const SavedStep& step_;
  const std::filesystem::path& directory_;
  const std::vector<BlockPlace> blocks_;
  WaitLimit limit_;
  int rank_;
  MemoryBlock ring_;
  std::size_t current_ = 0;  ///< index into blocks_
  bool is_open_ = false;     ///< whether it was asked for
  std::mutex mutex_;
  int open_file_ = -1;
  std::shared_ptr<const BlockFile> file_;
  BlockRing ahead_;  ///< last: its threads use what stands above
};

}  // namespace sluice
