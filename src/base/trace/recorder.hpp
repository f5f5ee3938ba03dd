// Recorder of what this process does in traced steps: intervals on its steady clock. There is one recorder
// per process: any folder may tell it what begins and ends, from any thread. Outside of traced steps that
// costs a branch on one flag.
#pragma once

#include "base/clock.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace sluice::trace {

/// Kind of a record, which decides its row in the trace.
enum class Kind : std::uint8_t {
  kStep,       ///< a whole train step; within it, on the same thread, all others but messages
  kOperation,  ///< computing, copying, reading
  kWait,       ///< a wait for other ranks or for the disk
  kPhase,      ///< the phases of the metrics, which follow each other without gaps
  kDisk,       ///< a transfer, on the thread that makes it
  kMessage,    ///< an exchange with other ranks, from its start until it is found to have ended
};

/// One interval on the steady clock, in nanoseconds.
struct Record {
  Kind kind;
  int thread;        ///< number of the thread: 0 called start(), others in the order of their first record
  const char* name;  ///< name of the operation, a literal: "all_gather"
  SteadyClock::time_point begin, end;
  /// Index of the step, layer, unit, region or operation; -1: none.
  std::int64_t number;
  std::int64_t bytes;  ///< bytes that it moves; -1: none
};

/// Records made between start() and stop().
struct Recording {
  SteadyClock::time_point begin;
  std::vector<Record> records;  ///< records, sorted by the time at which they end
  std::int64_t dropped = 0;     ///< records beyond kMostRecords
};

/// Records that are kept: 64 MiB of memory.
inline constexpr std::int64_t kMostRecords = 1 << 20;

namespace internal {
inline std::atomic<bool> is_recording = false;
}  // namespace internal

/// Whether a step is being traced. Costs one relaxed load.
[[nodiscard]] inline bool is_on() { return internal::is_recording.load(std::memory_order_relaxed); }

/// Begins to record, with nothing kept from before.
void start();
[[nodiscard]] Recording stop();

/// Keeps a record of this thread; nothing while is_on() is false. What began before start() begins with it.
void add(Kind kind, const char* name, SteadyClock::time_point begin, SteadyClock::time_point end,
         std::int64_t number = -1, std::int64_t bytes = -1);

/// Records its own life, if all of it is traced.
class Span {
 public:
  explicit Span(Kind kind, const char* name, std::int64_t number = -1, std::int64_t bytes = -1)
      : kind_(kind), is_recorded_(is_on()), name_(name), number_(number), bytes_(bytes) {
    if (is_recorded_) [[unlikely]]
      begin_ = SteadyClock::now();
  }
  ~Span() {
    if (is_recorded_) [[unlikely]]
      add(kind_, name_, begin_, SteadyClock::now(), number_, bytes_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Kind kind_;
  bool is_recorded_;
  const char* name_;
  std::int64_t number_, bytes_;
  SteadyClock::time_point begin_;
};

}  // namespace sluice::trace
