#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "metrics/trace/trace_file.hpp"
#include "process/console.hpp"
#include "report/trace/trace_events.hpp"
#include "report/trace/trace_summary.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct TraceArguments {
  std::filesystem::path run;
  std::filesystem::path output;  ///< file to write; "": trace.json in the run
  bool summary = false;          ///< print a table in place of the file
};

/// Reads the traces of all ranks. Error(kBadData) if there are none, if one is missing, or if they are of
/// different recordings.
std::vector<TraceFile> read_traces(const std::filesystem::path& run) {
  std::error_code error;
  if (!std::filesystem::exists(trace_file_path(run, 0), error))
    fail({ExitCode::kBadData, "metrics.file"},
         "{}: there is no trace in this run, expected {}: trace.steps in the job file, such as \"10-12\", "
         "records one",
         run.string(), trace_file_path("", 0).string());
  std::vector<TraceFile> ranks{read_trace_file(trace_file_path(run, 0))};
  const TraceHeader first = ranks.front().header;
  for (int rank = 1; rank < first.ranks; ++rank) {
    const std::filesystem::path file = trace_file_path(run, rank);
    ranks.push_back(read_trace_file(file));
    const TraceHeader& header = ranks.back().header;
    if (header.rank != rank || header.ranks != first.ranks || header.first_step != first.first_step ||
        header.last_step != first.last_step)
      fail({ExitCode::kBadData, "metrics.file"},
           "{}: found rank {} of {}, steps {} to {}; expected rank {} of {}, steps {} to {}, as rank 0 has "
           "them: trace the steps again",
           file.string(), header.rank, header.ranks, header.first_step, header.last_step, rank, first.ranks,
           first.first_step, first.last_step);
  }
  return ranks;
}

/// Prints each rank's seconds a step by kind of work, with the share of its step; kinds that no rank has are
/// left out.
void print_summary(const std::vector<TraceFile>& ranks) {
  const TraceHeader& first = ranks.front().header;
  const auto steps = static_cast<double>(first.last_step - first.first_step + 1);
  std::vector<std::vector<std::string>> rows{{"seconds a step"}};
  std::vector<double> in_steps(ranks.size());
  std::vector<std::vector<TraceShare>> shares;
  for (const TraceFile& rank : ranks) {
    rows[0].push_back(fmt::format("rank {}", rank.header.rank));
    shares.push_back(trace_shares(rank));
    for (const TraceShare& share : shares.back()) in_steps[shares.size() - 1] += share.seconds;
  }
  for (std::size_t kind = 0; kind < shares[0].size(); ++kind) {
    std::vector<std::string> row{shares[0][kind].kind};
    bool is_there = false;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const double seconds = shares[rank][kind].seconds;
      is_there = is_there || seconds > 0;
      row.push_back(fmt::format("{:.4f} ({:3.0f} %)", seconds / steps,
                                in_steps[rank] > 0 ? seconds / in_steps[rank] * 100 : 0.0));
    }
    if (is_there) rows.push_back(std::move(row));
  }
  rows.push_back({"step"});
  for (const double seconds : in_steps) rows.back().push_back(fmt::format("{:.4f} (100 %)", seconds / steps));
  console::line("trace     steps {}-{} of {}", first.first_step, first.last_step,
                counted(first.ranks, "rank"));
  console::result(console::table(rows));
}

int trace_command(const TraceArguments& arguments) {
  const std::vector<TraceFile> ranks = read_traces(find_run_files(arguments.run).directory);
  if (arguments.summary) {
    print_summary(ranks);
    return 0;
  }
  const std::filesystem::path output =
      arguments.output.empty() ? arguments.run / "trace.json" : arguments.output;
  const TraceTotals totals = write_trace_events(ranks, output);
  std::int64_t records = 0, dropped = 0;
  for (const TraceFile& rank : ranks) {
    records += std::ssize(rank.records);
    dropped += rank.header.dropped;
  }
  const TraceHeader& first = ranks.front().header;
  const std::int64_t steps = first.last_step - first.first_step + 1;
  console::line(
      "trace     steps {}-{} of {}: {}, {}, {} ({} and {} a step){}: {}", first.first_step, first.last_step,
      counted(first.ranks, "rank"), counted(records, "record"), counted(totals.events, "event"),
      format_bytes(totals.bytes), counted(records / steps, "record"), format_bytes(totals.bytes / steps),
      dropped > 0 ? fmt::format(", {} found no room", counted(dropped, "record")) : "", output.string());
  return 0;
}

}  // namespace

void add_trace(CommandLine& line) {
  const auto [command, arguments] = add_command<TraceArguments>(
      line, "trace", "Write the traced steps of a run for Perfetto or chrome://tracing", trace_command);
  command.add_option("run", arguments.run, "Run directory")->required();
  command.add_option("-o,--output", arguments.output, "File to write; default: trace.json in the run");
  command.add_flag("--summary", arguments.summary,
                   "Print each rank's seconds by kind of work instead of writing a file");
}

}  // namespace sluice
