// Where the time of traced steps goes, by kind of work.
#pragma once

#include "metrics/trace/trace_file.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Seconds that the thread that computes spent on a kind of work, over all traced steps.
struct TraceShare {
  std::string kind;
  double seconds = 0;
};

/// Kinds of work of a rank's steps, all of them in the same order for every rank; together they are the
/// steps. A record counts without the records inside it: a wait within an operation is waiting.
[[nodiscard]] std::vector<TraceShare> trace_shares(const TraceFile& rank);

}  // namespace sluice
