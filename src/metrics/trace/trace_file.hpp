// The trace that a rank leaves in its run directory, trace/rank-NNNNN.jsonl: lines of JSON.
//
// The first line is an object, TraceHeader. Each further line is a record: [kind, thread, name, begin, end,
// number, bytes], with times in nanoseconds since the beginning of the rank's recording, and -1 for no number
// and no bytes. Kinds are "step", "operation", "wait", "phase", "disk" and "message".
#pragma once

#include "base/trace/recorder.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

/// First line of a rank's trace.
struct TraceHeader {
  int rank = 0, ranks = 1;
  std::string host;
  std::int64_t first_step = 0, last_step = 0;
  std::int64_t begin_ns = 0;  ///< begin of the recording on rank 0's steady clock, ns
  /// Nanoseconds of the exchange that measured the offset, which is known to half of that; 0 on rank 0.
  std::int64_t round_trip_ns = 0;
  std::int64_t dropped = 0;  ///< records that found no room
};

/// A record as a file has it: times in nanoseconds since the recording began.
struct TraceRecord {
  trace::Kind kind = trace::Kind::kStep;
  int thread = 0;
  std::string name;
  std::int64_t begin_ns = 0, end_ns = 0, number = -1, bytes = -1;
};

/// Trace of one rank.
struct TraceFile {
  TraceHeader header;
  std::vector<TraceRecord> records;
};

/// "step", "operation" and so on.
[[nodiscard]] const char* name_of(trace::Kind kind);

/// trace/rank-00002.jsonl of a run directory.
[[nodiscard]] std::filesystem::path trace_file_path(const std::filesystem::path& run, int rank);

/// Writes the file and returns its bytes. Error(kIo).
std::int64_t write_trace_file(const std::filesystem::path& file, const TraceHeader& header,
                              const trace::Recording& recording);

/// Error(kBadData) naming the file and the line that is no part of a trace.
[[nodiscard]] TraceFile read_trace_file(const std::filesystem::path& file);

}  // namespace sluice
