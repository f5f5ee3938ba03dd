#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "metrics/trace/trace_file.hpp"
#include "process/console.hpp"
#include "report/trace/trace_events.hpp"
#include "report/trace/trace_summary.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
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

/// Prints each rank's seconds by kind of work in a step or a pass, as `whole` says, with their shares of it.
void print_summary(const TraceSummary& summary, std::string_view whole, std::size_t ranks) {
  std::vector<std::vector<std::string>> rows{{fmt::format("seconds a {}", whole)}};
  std::vector<double> in_all(ranks);
  for (const TraceShare& share : summary.shares)
    for (std::size_t rank = 0; rank < ranks; ++rank) in_all[rank] += share.seconds[rank];
  const auto cell = [&](double seconds, std::size_t rank) {
    return fmt::format("{:.5f} ({:3.0f} %)", seconds / static_cast<double>(summary.count),
                       in_all[rank] > 0 ? seconds / in_all[rank] * 100 : 0.0);
  };
  for (const TraceShare& share : summary.shares) {
    std::vector<std::string>& row = rows.emplace_back(1, share.kind);
    for (std::size_t rank = 0; rank < ranks; ++rank) row.push_back(cell(share.seconds[rank], rank));
  }
  std::vector<std::string>& last = rows.emplace_back(1, std::string(whole));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    rows[0].push_back(fmt::format("rank {}", rank));
    last.push_back(cell(in_all[rank], rank));
  }
  console::result(console::table(rows) + "\n");
}

/// Prints where steps, and passes of answers, went.
void print_summaries(const std::vector<TraceFile>& ranks) {
  constexpr std::pair<trace::Kind, std::string_view> kWholes[] = {{trace::Kind::kStep, "step"},
                                                                  {trace::Kind::kPass, "pass"}};
  for (const auto& [kind, name] : kWholes) {
    const TraceSummary summary = summarize(ranks, kind);
    if (summary.count > 0) print_summary(summary, name, ranks.size());
  }
}

/// The steps or passes of a trace and its ranks, for messages: "steps 10-12 of 3 ranks".
std::string extent_of(const std::vector<TraceFile>& ranks) {
  const TraceHeader& first = ranks.front().header;
  const bool has_steps = std::ranges::any_of(
      ranks.front().records, [](const TraceRecord& record) { return record.kind == trace::Kind::kStep; });
  return fmt::format("{} {}-{} of {}", has_steps ? "steps" : "passes", first.first_step, first.last_step,
                     counted(first.ranks, "rank"));
}

int trace_command(const TraceArguments& arguments) {
  const std::vector<TraceFile> ranks = read_traces(find_run_files(arguments.run).directory);
  if (arguments.summary) {
    console::line("trace     {}", extent_of(ranks));
    print_summaries(ranks);
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
  console::line("trace     {}: {}, {}, {} ({} and {} of each){}: {}", extent_of(ranks),
                counted(records, "record"), counted(totals.events, "event"), format_bytes(totals.bytes),
                counted(records / steps, "record"), format_bytes(totals.bytes / steps),
                dropped > 0 ? fmt::format(", {} found no room", counted(dropped, "record")) : "",
                output.string());
  return 0;
}

}  // namespace

void add_trace(CommandLine& line) {
  const auto [command, arguments] = add_command<TraceArguments>(
      line, "trace", "Write traced steps or passes for Perfetto or chrome://tracing", trace_command);
  command.add_option("run", arguments.run, "Run directory, or that of --trace")->required();
  command.add_option("-o,--output", arguments.output, "File to write; default: trace.json in the run");
  command.add_flag("--summary", arguments.summary,
                   "Print each rank's seconds by kind of work instead of writing a file");
}

}  // namespace sluice
