// What the page's script reads of a run.
#pragma once

#include "report/report_page.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace sluice {

/// How much of each run a page shows.
struct PageDetail {
  std::int64_t points = 0;        ///< of a line
  std::int64_t expert_cells = 0;  ///< of all layers
  std::int64_t text_bytes = 0;    ///< of the job file, and of all samples
};

[[nodiscard]] nlohmann::json run_json(const ReportRun& run, const PageDetail& detail);

}  // namespace sluice
