// Writes a file behind the thread that makes its bytes, which leaves no more than two windows of it in the
// page cache.
#pragma once

#include "base/range.hpp"
#include "io/blocks/block_ring.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace sluice {

/// Bytes that go to a file: `lines` of equal length, which lie one behind the other in memory and `stride`
/// bytes apart in the file.
struct WrittenBlock {
  std::int64_t offset = 0;
  std::span<const std::byte> data;
  std::int64_t lines = 1;
  std::int64_t stride = 0;
};

class WriteBehind {
 public:
  enum class Target : std::uint8_t {
    /// Created, and written past the page cache where the file system has such writes: blocks without lines,
    /// which are whole blocks of the disk but for the last one, and whose memory begins on a page and has
    /// room for whole blocks.
    kNewFile,
    kFoundFile,  ///< written through the page cache
  };

  /// Through the page cache, whenever `window_bytes` are written they begin to go to the disk, and the window
  /// before leaves the cache; 0: all stays there. Error(kIo) if the system refuses the file.
  WriteBehind(const std::filesystem::path& path, Target target, std::int64_t window_bytes);

  /// Begins to write a block, once the one before is written: from then on the memory of that one may be used
  /// again. Error(kIo), also of blocks before.
  void write(const WrittenBlock& block);
  /// Waits until all of it is on the disk.
  void close();

 private:
  void write_now(const WrittenBlock& block);
  void turn_window();

  bool is_direct_ = false;
  std::int64_t window_bytes_;
  OutputFile file_;
  WrittenBlock block_;  ///< block under way
  std::int64_t end_ = 0;
  Range window_;    ///< bytes written since writeback was last begun
  Range previous_;  ///< bytes on their way to the disk
  BlockRing ring_;  ///< last: its thread uses the rest
};

}  // namespace sluice
