// Recorder of what this process does in traced steps and passes of answers: intervals on its steady clock.
// There is one recorder per process; code in any folder reports begins and ends, from any thread. Outside of
// traced steps and passes a report costs a branch on one flag.
#pragma once

#include "base/clock.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace sluice::trace {

/// Kind of a record, which decides its row in the trace.
enum class Kind : std::uint8_t {
  kStep,       ///< a whole train step; all other records of its thread but messages lie within it
  kPass,       ///< a whole pass of answers, as a step
  kOperation,  ///< computing, copying or reading
  kWait,       ///< waiting for other ranks or for the disk
  kPhase,      ///< a phase of the metrics; phases follow each other without gaps
  kDisk,       ///< a transfer to or from a disk, on the thread that makes it
  kMessage,    ///< an exchange with other ranks, from its start until it is found finished
};

/// Size of the matrix of weights that an operation multiplies with; 0 by 0: none.
struct MatrixSize {
  std::int64_t rows = 0, columns = 0;
};

/// One recorded interval on the steady clock, in nanoseconds.
struct Record {
  Kind kind;
  /// Index of the thread: 0 for the one that called start(), others in the order of their first record.
  int thread;
  const char* name;  ///< name of the operation, a literal: "all_gather"
  SteadyClock::time_point begin, end;
  /// Index of the step, pass, layer, unit, region or operation; -1: none.
  std::int64_t number;
  std::int64_t bytes;  ///< bytes that the interval moved; -1: none
  MatrixSize matrix;
};

/// Records made between start() and stop().
struct Recording {
  SteadyClock::time_point begin;
  std::vector<Record> records;  ///< records, sorted by the time at which they end
  std::int64_t dropped = 0;     ///< number of records beyond kMostRecords, which were not kept
};

/// Most records that are kept: 64 MiB of memory.
inline constexpr std::int64_t kMostRecords = 1 << 20;

namespace internal {
inline std::atomic<bool> is_recording = false;
}  // namespace internal

/// Whether a step or pass is being traced. Costs one relaxed load.
[[nodiscard]] inline bool is_on() { return internal::is_recording.load(std::memory_order_relaxed); }

/// Begins to record; drops earlier records.
void start();
[[nodiscard]] Recording stop();

/// Adds a record of this thread; does nothing while is_on() is false. Intervals that began before start() are
/// cut to begin with it.
void add(Kind kind, const char* name, SteadyClock::time_point begin, SteadyClock::time_point end,
         std::int64_t number = -1, std::int64_t bytes = -1, const MatrixSize& matrix = {});

/// Records its own lifetime, if all of it is traced.
class Span {
 public:
  explicit Span(Kind kind, const char* name, std::int64_t number = -1, std::int64_t bytes = -1)
      : kind_(kind), is_recorded_(is_on()), name_(name), number_(number), bytes_(bytes) {
    if (is_recorded_) [[unlikely]]
      begin_ = SteadyClock::now();
  }
  Span(Kind kind, const char* name, const MatrixSize& matrix) : Span(kind, name) { matrix_ = matrix; }
  ~Span() {
    if (is_recorded_) [[unlikely]]
      add(kind_, name_, begin_, SteadyClock::now(), number_, bytes_, matrix_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Kind kind_;
  bool is_recorded_;
  const char* name_;
  std::int64_t number_, bytes_;
  MatrixSize matrix_;
  SteadyClock::time_point begin_;
};

}  // namespace sluice::trace
