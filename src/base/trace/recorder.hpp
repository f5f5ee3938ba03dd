// What a process does in the steps that are traced, as records of intervals on its steady clock.
//
// One recorder for the process: any folder may tell it what begins and ends, from any thread. Outside of traced
// steps that costs a branch on one flag.
#pragma once

#include "base/clock.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace sluice::trace {

enum class Kind : std::uint8_t {
  kStep,       ///< a whole train step; within it, on the same thread, all others but messages
  kOperation,  ///< computing, copying, reading
  kWait,       ///< a wait for other ranks or for the disk
  kPhase,      ///< the phases of the metrics, which follow each other without gaps
  kDisk,       ///< a transfer, on the thread that makes it
  kMessage,    ///< an exchange with other ranks, from its start until it is found to have ended
};

struct Record {
  Kind kind;
  int thread;        ///< 0 for the one that called start(), others in the order of their first record
  const char* name;  ///< a literal: "all_gather"
  SteadyClock::time_point begin, end;
  /// Which of several it is: a step, layer, unit, region, or the operation's number; -1: none.
  std::int64_t number;
  std::int64_t bytes;  ///< bytes that it moves; -1: none
};

/// What start() to stop() has recorded.
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
