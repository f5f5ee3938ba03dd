// Writes traces of ranks as one file in the Trace Event Format (Google, 2016), which Perfetto and
// chrome://tracing open.
#pragma once

#include "metrics/trace/trace_file.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace sluice {

/// Totals of a written trace.
struct TraceTotals {
  std::int64_t events = 0;  ///< number of events in the file
  std::int64_t bytes = 0;   ///< size of the written file in bytes
};

/// Writes the ranks' records to `output`, in place of an earlier file, on rank 0's clock, whose zero is the
/// earliest record. A rank is a process with these threads: 0 the thread that computes, 1 its phases, from 2
/// on threads that move bytes to and from the disk; messages are asynchronous events with an id of their own.
/// Events come in the order of their times. Error(kIo).
TraceTotals write_trace_events(const std::vector<TraceFile>& ranks, const std::filesystem::path& output);

}  // namespace sluice
