// Content of the page of `sluice report` for a run's directory.
#pragma once

#include "report/report_page.hpp"

#include <filesystem>

namespace sluice {

/// Reads all that is small of a run; the metrics stay open. What is missing or broken beside them becomes a
/// note. Error(kBadData) for what the metrics lack.
[[nodiscard]] ReportRun read_report_run(const std::filesystem::path& directory);

}  // namespace sluice
