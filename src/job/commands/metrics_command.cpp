#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "job/console.hpp"
#include "metrics/merge.hpp"
#include "metrics/segments.hpp"

#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// The first metrics file of a run, or that file itself.
fs::path metrics_file_of(const fs::path& run) {
  std::error_code error;
  return fs::is_directory(run, error) ? find_run_files(run).metrics_file() : run;
}

}  // namespace

int metrics_merge_command(const MergeArguments& arguments) {
  const fs::path file = metrics_file_of(arguments.run);
  const std::vector<fs::path> segments = existing_segments(file);
  if (segments.empty())
    fail(ExitCode::kBadData,
         "{}: there is no such file; expected a run directory, or the first of its metrics files",
         file.string());
  const MergeReport report = merge_metrics(segments, arguments.output);
  console::line("metrics   {} rows of {} files, {} of them trained again later and left out: {}",
                report.rows + report.replaced_rows, segments.size(), report.replaced_rows,
                arguments.output.string());
  return 0;
}

}  // namespace sluice
