#include "base/bytes.hpp"
#include "io/file.hpp"
#include "job/commands/commands.hpp"
#include "job/commands/report_run.hpp"
#include "job/console.hpp"

namespace sluice {

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

}  // namespace sluice
