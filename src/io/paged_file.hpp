// Paged file: memory whose unused parts lie in a file, so that more can be trained than memory holds.
#pragma once

#include "base/clock.hpp"
#include "base/digest.hpp"
#include "io/blocks/workers.hpp"
#include "io/file.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace sluice {

/// Regions of this process's memory, each with a place in one file that has no name: whatever ends the
/// process, the file is gone. The addresses stay; what lies there depends on the mode.
///
///   mapped: the file itself, so that all regions can be read as they come, while saving and exporting, and
///           from the start to the first page() also written, while loading; twice a second what was written
///           goes to the disk and leaves the page cache
///   paged:  nothing but the regions in use, read and written directly, past the page cache, by two threads
///
/// All but the two threads' work, and peek(), is for one thread of the owner.
class PagedFile {
 public:
  /// Alignment of the regions' addresses and lengths, in bytes.
  static constexpr std::int64_t kAlignment = 4096;

  /// Allocates a file of `bytes` bytes in `directory`. `limit_seconds`: how long acquire() waits for the disk
  /// at most. Error(kBadConfig) if the directory lies in memory (tmpfs); Error(kIo) if there is no room or
  /// the system refuses.
  PagedFile(const std::filesystem::path& directory, std::int64_t bytes, int rank, double limit_seconds);
  PagedFile(const PagedFile&) = delete;
  PagedFile& operator=(const PagedFile&) = delete;

  /// Adds a region at the next place of the file, zero until it is written; returns its number. `memory` is
  /// anonymous and untouched, and must outlive this object, or the call of stop().
  int add(std::span<std::byte> memory);

  enum class Access : bool { kRead, kWrite };
  /// Changes the mode. map(): released regions are on the disk first. page(): no region may be in use; notes
  /// a checksum of each region that was written meanwhile, against which every read is checked.
  void map(Access access = Access::kRead);
  void page();

  // The functions below are for paged mode.

  /// Limits the bytes of the regions in memory, those in flight counted.
  void set_budget(std::int64_t bytes);
  /// Begins to read a region once others leave room, unless it is in memory.
  void prefetch(int region);
  /// Waits until the region is in memory, and keeps it there until release(). Error(kIo) if the disk failed,
  /// also earlier and for another region, if bytes are not those that were written, and after limit_seconds.
  void acquire(int region);
  /// Whether a region's memory was written, so that the file follows.
  enum class Content : std::uint8_t { kUnchanged, kWritten };
  /// Whether a region gives up its memory, or stays in memory for its next use.
  enum class Memory : std::uint8_t { kFreed, kKept };
  /// Ends the use of a region that acquire() began.
  void release(int region, Content content, Memory memory);
  /// Waits until all released regions are written. Error(kIo) as acquire().
  void finish();

  /// Reads bytes [offset, offset + bytes) of a region from the file into `buffer`, which is aligned and has
  /// peek_room(bytes) bytes; returns the address of the first one. May be called on another thread. The
  /// region must not have been released as dirty since finish(). Error(kIo) if the disk fails.
  [[nodiscard]] const std::byte* peek(int region, std::int64_t offset, std::int64_t bytes,
                                      std::span<std::byte> buffer) const;
  [[nodiscard]] static constexpr std::int64_t peek_room(std::int64_t bytes) { return bytes + 2 * kAlignment; }

  /// Ends the two threads: no region may be touched or acquired afterwards.
  void stop() { workers_.stop(); }

  /// Bytes read so far in paged mode, and bytes written.
  [[nodiscard]] std::int64_t read_bytes() const;
  [[nodiscard]] std::int64_t written_bytes() const;

 private:
  enum class Place : std::uint8_t { kDisk, kComing, kMemory, kLeaving };
  struct Region {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::int64_t offset = 0;  ///< first byte of the region in the file
    Place place = Place::kDisk;
    bool is_used = false;
    bool stays = false;              ///< whether the region stays in memory after it is written
    std::optional<Digest> digest{};  ///< digest of the region's bytes in the file, if known
  };

  void create(const std::filesystem::path& directory, std::int64_t bytes);
  void map_region(const Region& region, int protection) const;
  void unmap_region(const Region& region) const;
  void start_reading(Region& region);
  void wait(Workers::Lock& lock, const std::function<bool()>& done, const char* what);
  [[nodiscard]] Workers::Task next_read();
  [[nodiscard]] Workers::Task next_write();
  void read(Region& region);
  void write(Region& region);
  void drop_mapped_pages();
  /// Sum of the digests of the pieces in which a region is transferred.
  static Digest digest_of_memory(const Region& region);
  Digest transfer(const Region& region, bool writes) const;
  void move(const Region& region, std::int64_t begin, std::int64_t end, bool writes) const;
  void drop(Region& region);

  std::string name_;  ///< name of the file in messages
  int rank_;
  double limit_seconds_;
  FileDescriptor file_{-1};  ///< descriptor that goes through the page cache, for mappings
  /// Descriptor for direct I/O, or a second one through the page cache if there is no direct I/O.
  FileDescriptor direct_{-1};
  std::int64_t file_bytes_;
  std::int64_t next_offset_ = 0;
  std::int64_t budget_ = 0;

  // Members below are guarded by the lock of workers_:
  bool is_mapped_ = true;
  bool is_writable_ = true;  ///< while mapped: whether regions may be written
  Stopwatch since_drop_;
  std::deque<Region> regions_;
  std::deque<int> reads_, writes_;
  std::int64_t held_bytes_ = 0;  ///< bytes of the regions that are in memory or in flight
  std::int64_t read_bytes_ = 0, written_bytes_ = 0;
  Workers workers_;  ///< transfer threads; declared last because they use the other members
};

}  // namespace sluice
