// The metrics file of a run.
#pragma once

#include "job/job.hpp"
#include "load/load_report.hpp"
#include "metrics/metrics_writer.hpp"

#include <cstdint>
#include <optional>

namespace sluice {

/// Rows that a job will add at most.
struct ExpectedRows {
  std::int64_t steps = 0;
  std::int64_t documents = 0;
};

/// Creates the metrics file on rank 0 and fills /load if there is a report; nothing on other ranks.
[[nodiscard]] std::optional<MetricsWriter> open_metrics(JobContext& context,
                                                        const std::optional<LoadReport>& load,
                                                        ExpectedRows expected = {});

}  // namespace sluice
