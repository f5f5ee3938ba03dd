#include "base/error.hpp"
#include "base/text.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "metrics/segments.hpp"
#include "process/console.hpp"
#include "process/run_lock.hpp"
#include "process/status_file.hpp"
#include "report/export_metrics.hpp"
#include "report/merge.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace sluice {
namespace {

struct MergeArguments {
  std::filesystem::path run;     ///< a run's directory, or the first of its metrics files
  std::filesystem::path output;  ///< metrics file to create
};

namespace fs = std::filesystem;

/// The first metrics file of a run; or `run` itself if it is a file.
fs::path metrics_file_of(const fs::path& run) {
  std::error_code error;
  return fs::is_directory(run, error) ? find_run_files(run).metrics_file() : run;
}

/// Merges the metrics files of a run that was resumed.
int metrics_merge_command(const MergeArguments& arguments) {
  const fs::path file = metrics_file_of(arguments.run);
  const std::vector<fs::path> segments = existing_segments(file);
  if (segments.empty())
    fail({ExitCode::kBadData, "job.not_a_run"},
         "{}: there is no such file; expected a run directory, or the first of its metrics files",
         file.string());
  const MergeReport report = merge_metrics(segments, arguments.output);
  console::line("metrics   {} of {}, {} of them trained again later and skipped: {}",
                counted(report.rows + report.replaced_rows, "row"), counted(std::ssize(segments), "file"),
                report.replaced_rows, arguments.output.string());
  return 0;
}

struct MetricsExportArguments {
  std::filesystem::path run;
  bool csv = false, jsonl = false, tensorboard = false;  ///< format of the export: exactly one is set
  /// File or directory to write; "": metrics.csv, metrics.jsonl or tensorboard/ in the run.
  std::filesystem::path output;
  bool follow = false;  ///< whether new rows are exported until the run ends; needs tensorboard
  double seconds = 10;  ///< seconds between two looks at the run, with --follow
};

fs::path output_of(const MetricsExportArguments& arguments) {
  if (!arguments.output.empty()) return arguments.output;
  return arguments.run / (arguments.csv ? "metrics.csv" : arguments.jsonl ? "metrics.jsonl" : "tensorboard");
}

/// Whether no more rows will come: the job has recorded its end, or no process holds the run.
bool is_over(const RunFiles& files) {
  const nlohmann::json status = read_status(files.directory);
  return has_ended(status) || !is_running(files.directory, status);
}

/// Exports new rows. A file that is being written may be unreadable for a moment; the next look finds them if
/// the run goes on.
void add_new_rows(GrowingEvents& events, const RunFiles& files, bool is_last) try {
  events.add_new(JoinedMetrics(files.segments()));
} catch (const Error& error) {
  if (is_last || error.code() != ExitCode::kBadData) throw;
}

/// Exports rows to an event file as the run writes them, until it has ended.
int follow_metrics(const MetricsExportArguments& arguments) {
  GrowingEvents events(output_of(arguments));
  console::line("metrics   followed until the run ends: {}", events.file().string());
  while (true) {
    const RunFiles files = find_run_files(arguments.run);
    const bool is_last = is_over(files);  // asked before the rows are read, so that none is missed
    add_new_rows(events, files, is_last);
    if (is_last) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.seconds));
  }
}

/// Exports the metrics of a training to another format. Error(kBadData) if it has none.
int metrics_export_command(const MetricsExportArguments& arguments) {
  if (arguments.follow) return follow_metrics(arguments);
  const JoinedMetrics metrics = find_run_files(arguments.run).metrics();
  fs::path output = output_of(arguments);
  if (arguments.tensorboard)
    output = export_events(metrics, output);
  else
    export_table(metrics, arguments.csv ? TableFormat::kCsv : TableFormat::kJsonl, output);
  console::line("metrics   {}: {}", counted(metrics.rows(), "step"), output.string());
  return 0;
}

void add_metrics_merge(CommandLine& line, CLI::App& group) {
  const auto [command, arguments] = add_command<MergeArguments>(
      line, group, "merge", "Join the metrics files of a run that was resumed", metrics_merge_command);
  command.add_option("run", arguments.run, "Run directory, or the first of its metrics files")->required();
  command.add_option("-o,--output", arguments.output, "File to write, which may not be there yet")
      ->required();
}

void add_metrics_export(CommandLine& line, CLI::App& group) {
  const auto [command, arguments] = add_command<MetricsExportArguments>(
      line, group, "export", "Write them in another format", metrics_export_command);
  command.add_option("run", arguments.run, "Run directory")->required();
  CLI::Option_group& format = *command.add_option_group("format");
  format.add_flag("--csv", arguments.csv, "A line a step, a column for each number");
  format.add_flag("--jsonl", arguments.jsonl, "An object a step");
  CLI::Option* const events =
      format.add_flag("--tensorboard", arguments.tensorboard, "An event file, in a directory");
  format.require_option(1);
  CLI::Option* const follow = command.add_flag("--follow", arguments.follow,
                                               "Go on while the run does, for a TensorBoard that is open");
  follow->needs(events);
  command.add_option("--every", arguments.seconds, "Seconds between two looks at a run that is followed")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str()
      ->needs(follow);
  command.add_option(
      "-o,--output", arguments.output,
      "File or directory to write; default: metrics.csv, metrics.jsonl or tensorboard in the run");
}

}  // namespace

/// Adds the commands "metrics merge RUN" and so on.
void add_metrics(CommandLine& line) {
  CLI::App& group = *line.app.add_subcommand("metrics", "Metrics files of a run");
  group.require_subcommand(1);
  add_metrics_merge(line, group);
  add_metrics_export(line, group);
}

}  // namespace sluice
