// Reads a rank's state once, front to back, on one thread, while another changes it unit after unit.
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

/// A unit that is to change before it was read is copied first, one unit at a time: so the bytes that are
/// read are those of one moment, and take at most the largest unit more.
class SpanReader {
 public:
  /// `spans` have each unit's together, best in the order in which units change. Nothing is read for
  /// `limit_seconds` while keep() waits: that is its Error(kIo). `paged`, if it is not null, is the paged
  /// arena that they are part of, settled, and must outlive the reading, which then takes `bytes` of next()
  /// more.
  SpanReader(std::vector<StateSpan> spans, double limit_seconds, const ShardArena* paged = nullptr);

  // Calls of the reading thread:

  using Use = std::function<void(const StateSpan& span, std::span<const std::byte> bytes)>;
  /// Calls `use` with the next bytes and the span that they belong to, at most `bytes` of them; false: there
  /// are none left, or stop() was called. Errors of PagedFile::peek().
  bool next(std::int64_t bytes, const Use& use);

  // Calls of the updating thread:

  /// Keeps a copy of a unit for the reader; call it before the unit changes. Waits until the unit before, if
  /// it had to be copied, is read.
  void keep(int unit);
  /// Nothing more will be read: keep() has nothing to do.
  void stop();
  [[nodiscard]] bool stopped();

 private:
  /// The spans of a unit: [begin, end) of spans_.
  struct Unit {
    std::size_t begin = 0, end = 0;
  };

  [[nodiscard]] bool is_read(const Unit& unit) const { return stopped_ || next_ >= unit.end; }
  [[nodiscard]] bool is_copied(const Unit& unit) const { return copied_end_ == unit.end; }
  void copy(const Unit& unit);
  /// Waits for `condition`, as long as reading goes on meanwhile.
  void wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& condition);

  std::vector<StateSpan> spans_;
  std::vector<Unit> units_;  ///< units by number; empty where this rank keeps nothing of a unit
  double limit_seconds_;
  const ShardArena* paged_;
  MemoryBlock room_;  ///< for what lies on a disk

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;         ///< span to be read
  std::int64_t next_bytes_ = 0;  ///< bytes of the next unit that have been read
  std::int64_t reads_ = 0;
  bool is_reading_ = false;     ///< whether a read goes on without the lock
  bool wants_to_copy_ = false;  ///< the reader lets the other thread in
  bool stopped_ = false;
  MemoryBlock copy_;            ///< copy of the unit whose spans end with copied_end_
  std::size_t copied_end_ = 0;  ///< 0 for none
};

/// Bytes of the unit that takes most.
[[nodiscard]] std::int64_t largest_unit_bytes(std::span<const StateSpan> spans);

}  // namespace sluice
