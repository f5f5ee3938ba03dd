// JSON of a run for the page's script.
#pragma once

#include "report/report_page.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace sluice {

/// Amount of detail that a page shows of each run.
struct PageDetail {
  std::int64_t points = 0;        ///< most points of a line
  std::int64_t expert_cells = 0;  ///< most cells of the heat map of expert loads, over all layers
  /// Most bytes of the job file's text, and most bytes of all samples together.
  std::int64_t text_bytes = 0;
};

/// A run as JSON for the page.
[[nodiscard]] nlohmann::json run_json(const ReportRun& run, const PageDetail& detail);

}  // namespace sluice
