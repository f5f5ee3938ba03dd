#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "config/job_config.hpp"
#include "job/commands/commands.hpp"
#include "job/console.hpp"
#include "metrics/merge.hpp"
#include "metrics/segments.hpp"

#include <system_error>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// The first metrics file of a run, by its copy of the job, or that file itself.
fs::path metrics_file_of(const fs::path& run) {
  std::error_code error;
  if (!fs::is_directory(run, error)) return run;
  const fs::path job = run / "job.toml";
  if (fs::exists(job, error)) return run / load_job_config(job).metrics.file;
  return run / MetricsSettings().file;
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
