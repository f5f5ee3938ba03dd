// The trace that a rank leaves in its run directory, trace/rank-NNNNN.jsonl: lines of JSON.
//
// The first line is an object, TraceHeader. Each further line is a record: [kind, thread, name, begin, end,
// number, bytes], with times in nanoseconds since the beginning of the rank's recording, and -1 for no number
// and no bytes; products have the rows and columns of their weights behind it. Kinds are "step", "pass",
// "operation", "wait", "phase", "disk" and "message".
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
  std::int64_t first_step = 0, last_step = 0;  ///< numbers of the first and last step, or pass of answers
  std::int64_t begin_ns = 0;                   ///< begin of the recording on rank 0's steady clock, in ns
  /// Round trip in nanoseconds of the exchange that measured the clock's offset, which is exact to half of
  /// it; 0 on rank 0.
  std::int64_t round_trip_ns = 0;
  std::int64_t dropped = 0;  ///< number of records that were not kept for lack of room
};

/// A record in a file: times in nanoseconds since the recording began.
struct TraceRecord {
  trace::Kind kind = trace::Kind::kStep;
  int thread = 0;
  std::string name;
  std::int64_t begin_ns = 0, end_ns = 0, number = -1, bytes = -1;
  trace::MatrixSize matrix{};
};

/// Trace of one rank.
struct TraceFile {
  TraceHeader header;
  std::vector<TraceRecord> records;
};

/// Name of a kind of records in the file: "step", "operation" and so on.
[[nodiscard]] const char* name_of(trace::Kind kind);

/// Path of a rank's trace in a run directory: trace/rank-00002.jsonl.
[[nodiscard]] std::filesystem::path trace_file_path(const std::filesystem::path& run, int rank);

/// Writes a trace; returns the bytes of the file. Error(kIo).
std::int64_t write_trace_file(const std::filesystem::path& file, const TraceHeader& header,
                              const trace::Recording& recording);

/// Reads a trace. Error(kBadData) with the file and the line that is not part of a trace.
[[nodiscard]] TraceFile read_trace_file(const std::filesystem::path& file);

}  // namespace sluice
