#include "base/bytes.hpp"
#include "io/file.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/report_run.hpp"
#include "job/console.hpp"

namespace sluice {
namespace {

struct ReportArguments {
  std::vector<std::filesystem::path> runs;  ///< directories
  std::filesystem::path output;             ///< "": report.html in the first of them
};

/// Writes one HTML page of runs of trainings, which may still go on: Error(kBadData) if one has no metrics.
int report_command(const ReportArguments& arguments) {
  std::vector<ReportRun> runs;
  for (const std::filesystem::path& directory : arguments.runs) runs.push_back(read_report_run(directory));
  const std::string page = report_page(runs);
  const std::filesystem::path file =
      arguments.output.empty() ? arguments.runs.front() / "report.html" : arguments.output;
  write_text_file(file, page);
  console::line("report    {}: {}", format_bytes(std::ssize(page)), file.string());
  return 0;
}

}  // namespace

void add_report(CommandLine& line) {
  const auto [command, arguments] = add_command<ReportArguments>(
      line, "report", "Write one HTML page that shows runs: loss, speed, memory, experts", report_command);
  command.add_option("run", arguments.runs, "Run directories, which may still be running")->required();
  command.add_option("-o,--output", arguments.output,
                     "File to write; left out: report.html in the first run");
}

}  // namespace sluice
