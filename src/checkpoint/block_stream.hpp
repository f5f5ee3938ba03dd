// Blocks of a saved step's files, read and used by threads.
#pragma once

#include "checkpoint/block_reader.hpp"
#include "comm/wait.hpp"
#include "load/read_ahead.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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

/// Four threads, each of which reads a block of kSavedBlockBytes, proves it and uses it while it is in the processor's caches.
class BlockStream {
 public:
  /// Called on the threads with the number of a block, counted in the order of `blocks`, and its bytes, which then go.
  using Use = std::function<void(std::size_t index, const std::byte* bytes)>;

  /// `blocks` of `step` in `directory`, both of which must outlive this, as must what `use` works with. Begins at once. `rank`
  /// is for messages.
  BlockStream(const SavedStep& step, const std::filesystem::path& directory, std::vector<BlockPlace> blocks,
              Use use, int rank, double limit_seconds);

  /// Waits until so many more blocks, or all that are left, have been used. Errors of BlockFile; Error(kInternal) if the disk
  /// does not give one within `limit_seconds`.
  void wait(std::int64_t blocks);

 private:
  static constexpr int kThreads = 4;
  /// How far the threads may be ahead of who waits.
  static constexpr std::size_t kAhead = 64;

  class Buffer;
  void wait_for_next();
  void handle(std::size_t read);
  std::shared_ptr<const BlockFile> open(int file);

  const SavedStep& step_;
  const std::filesystem::path& directory_;
  const std::vector<BlockPlace> blocks_;
  const Use use_;
  WaitLimit limit_;
  int rank_;
  MemoryBlock memory_;
  std::size_t used_ = 0;  ///< of blocks_, that were waited for
  std::mutex mutex_;      ///< guards what follows
  std::vector<std::byte*> free_;
  int open_file_ = -1;
  std::shared_ptr<const BlockFile> file_;
  ReadAhead ahead_;
};

}  // namespace sluice
