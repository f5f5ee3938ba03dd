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

/// Place of a block: one of SavedStep::files, and the block's number in it.
struct BlockPlace {
  int file = 0;
  std::int64_t block = 0;
  bool operator==(const BlockPlace&) const = default;
};

/// Stream of blocks: two threads read ahead into four blocks of kSavedBlockBytes.
class BlockStream {
 public:
  /// Reads `blocks` of `step` in `directory`; blocks and step must outlive this object. `rank` is for
  /// messages.
  BlockStream(const SavedStep& step, const std::filesystem::path& directory, std::vector<BlockPlace> blocks,
              int rank, double limit_seconds);

  /// First byte of a block, which stays valid until another block is asked for. Blocks must be asked for in
  /// order. Errors of BlockFile; Error(kInternal) if the disk does not deliver it within `limit_seconds`.
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
  bool is_open_ = false;     ///< whether the present block was asked for
  std::mutex mutex_;
  int open_file_ = -1;
  std::shared_ptr<const BlockFile> file_;
  BlockRing ahead_;  ///< reading threads; declared last because they use the other members
};

}  // namespace sluice
