// Writes a file behind the thread that produces its bytes, with at most two windows of it in the page cache.
#pragma once

#include "base/range.hpp"
#include "io/blocks/block_ring.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace sluice {

/// Bytes to be written: `lines` of equal length, which lie one after the other in memory and `stride` bytes
/// apart in the file.
struct WrittenBlock {
  std::int64_t offset = 0;
  std::span<const std::byte> data;
  std::int64_t lines = 1;
  std::int64_t stride = 0;
};

class WriteBehind {
 public:
  enum class Target : std::uint8_t {
    /// A new file, written past the page cache if the file system has direct writes: blocks have no lines,
    /// all but the last one are whole blocks of the disk, and their memory begins on a page and has room for
    /// whole blocks.
    kNewFile,
    kFoundFile,  ///< an existing file, written through the page cache
  };

  /// Writes through the page cache: whenever `window_bytes` bytes were written, they begin to go to the disk,
  /// and the window before leaves the cache; 0: all stays in the cache. Error(kIo) if the system refuses the
  /// file.
  WriteBehind(const std::filesystem::path& path, Target target, std::int64_t window_bytes);

  /// Begins to write a block once the block before is written; the memory of the latter may then be used
  /// again. Error(kIo), also for earlier blocks.
  void write(const WrittenBlock& block);
  /// Waits until all bytes are on the disk.
  void close();

 private:
  void write_now(const WrittenBlock& block);
  void turn_window();

  bool is_direct_ = false;
  std::int64_t window_bytes_;
  OutputFile file_;
  WrittenBlock block_;  ///< block that is being written
  std::int64_t end_ = 0;
  Range window_;    ///< bytes written since writeback was last begun
  Range previous_;  ///< bytes that are being written to the disk
  BlockRing ring_;  ///< writing thread; declared last because it uses the other members
};

}  // namespace sluice
