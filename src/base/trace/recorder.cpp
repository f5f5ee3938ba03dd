#include "base/trace/recorder.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace sluice::trace {
namespace {

std::mutex mutex;
Recording recording;  // records so far; guarded by `mutex`, like the variables below
std::int64_t recordings = 0;
int threads = 0;

/// Number of this thread in the present recording. The caller holds the mutex.
int thread_number() {
  thread_local std::int64_t numbered_in = 0;
  thread_local int number = 0;
  if (std::exchange(numbered_in, recordings) != recordings) number = threads++;
  return number;
}

}  // namespace

void start() {
  const std::scoped_lock lock(mutex);
  recording = {.begin = SteadyClock::now(), .records = {}};
  ++recordings;
  threads = 0;
  static_cast<void>(thread_number());
  internal::is_recording = true;
}

Recording stop() {
  internal::is_recording = false;
  const std::scoped_lock lock(mutex);
  return std::exchange(recording, {});
}

void add(Kind kind, const char* name, SteadyClock::time_point begin, SteadyClock::time_point end,
         std::int64_t number, std::int64_t bytes, const MatrixSize& matrix) {
  const std::scoped_lock lock(mutex);
  if (!is_on() || end <= recording.begin) return;
  if (std::ssize(recording.records) >= kMostRecords) {
    ++recording.dropped;
    return;
  }
  recording.records.push_back(
      {kind, thread_number(), name, std::max(begin, recording.begin), end, number, bytes, matrix});
}

}  // namespace sluice::trace
