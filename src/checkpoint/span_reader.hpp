// Reads a rank's state once, front to back, on one thread, while another thread changes it unit after unit.
#pragma once

#include "checkpoint/state_spans.hpp"
#include "device/memory.hpp"
#include "shard/arena_access.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace sluice {

/// Reads spans of state as they were at one moment: a unit that is to change before it was read is copied
/// first, one unit at a time, which takes at most the bytes of the largest unit.
class SpanReader {
 public:
  /// `spans` has the spans of each unit together, best in the order in which units change. keep() throws
  /// Error(kIo) if nothing is read for `limit_seconds` while it waits. `paged`, if not null, is the paged
  /// arena that they are part of, settled; it must outlive the reading, which then takes another `bytes` of
  /// next().
  SpanReader(std::vector<StateSpan> spans, double limit_seconds, const ShardArena* paged = nullptr);

  // Functions of the reading thread:

  using Use = std::function<void(const StateSpan& span, std::span<const std::byte> bytes)>;
  /// Calls `use` with at most `bytes` of the next bytes and the span that they belong to; returns false if
  /// none are left, or if stop() was called. Errors of PagedFile::peek().
  bool next(std::int64_t bytes, const Use& use);

  // Functions of the updating thread:

  /// Keeps a copy of a unit for the reader; must be called before the unit changes. Waits until the unit that
  /// was copied before, if any, is read.
  void keep(int unit);
  /// Ends the reading: keep() has nothing to do afterwards.
  void stop();
  [[nodiscard]] bool stopped();

 private:
  /// Spans [begin, end) of spans_, which belong to one unit.
  struct Unit {
    std::size_t begin = 0, end = 0;
  };

  [[nodiscard]] bool is_read(const Unit& unit) const { return stopped_ || next_ >= unit.end; }
  [[nodiscard]] bool is_copied(const Unit& unit) const { return copied_end_ == unit.end; }
  void copy(const Unit& unit);
  /// Waits for `condition`, as long as reading progresses.
  void wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& condition);

  std::vector<StateSpan> spans_;
  std::vector<Unit> units_;  ///< spans of each unit; empty if this rank keeps nothing of the unit
  double limit_seconds_;
  const ShardArena* paged_;
  MemoryBlock room_;  ///< memory for bytes read from a disk

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;         ///< index of the span to be read next
  std::int64_t next_bytes_ = 0;  ///< bytes of the next unit that have been read
  std::int64_t reads_ = 0;
  bool is_reading_ = false;     ///< whether the reader is reading without the lock
  bool wants_to_copy_ = false;  ///< whether the other thread waits to copy, so that the reader lets it in
  bool stopped_ = false;
  MemoryBlock copy_;            ///< copy of the unit whose spans end with copied_end_
  std::size_t copied_end_ = 0;  ///< end of the copied unit's spans; 0: no unit is copied
};

/// Bytes of the largest unit in `spans`.
[[nodiscard]] std::int64_t largest_unit_bytes(std::span<const StateSpan> spans);

}  // namespace sluice
