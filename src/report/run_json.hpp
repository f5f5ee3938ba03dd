// JSON of a run that the page's script reads.
#pragma once

#include "report/report_page.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace sluice {

/// How much of each run a page shows.
struct PageDetail {
  std::int64_t points = 0;        ///< points of a line, at most
  std::int64_t expert_cells = 0;  ///< cells of the heat map of expert loads, over all layers
  std::int64_t text_bytes = 0;    ///< bytes of the job file's text, and of all samples together, at most
};

/// A run as JSON for the page.
[[nodiscard]] nlohmann::json run_json(const ReportRun& run, const PageDetail& detail);

}  // namespace sluice
