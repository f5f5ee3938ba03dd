// Where the time of traced steps and passes of answers goes, by kind of work.
#pragma once

#include "metrics/trace/trace_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Seconds that the threads that compute spent on a kind of work, over all traced steps.
struct TraceShare {
  std::string kind;
  std::vector<double> seconds;  ///< seconds of each rank
};

/// Seconds by kind of work.
struct TraceSummary {
  std::int64_t count = 0;  ///< number of whole steps or passes on a rank
  std::vector<TraceShare> shares;
};

/// Sums what ranks did in their records of kind `whole`, which is kStep or kPass. The kinds of work together
/// are these records. A record counts without the records inside it: a wait within an operation is waiting.
[[nodiscard]] TraceSummary summarize(std::span<const TraceFile> ranks, trace::Kind whole);

}  // namespace sluice
