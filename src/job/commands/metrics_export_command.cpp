#include "job/commands/commands.hpp"
#include "job/commands/run_files.hpp"
#include "job/console.hpp"
#include "report/export_metrics.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;

fs::path output_of(const MetricsExportArguments& arguments) {
  if (!arguments.output.empty()) return arguments.output;
  return arguments.run / (arguments.csv ? "metrics.csv" : arguments.jsonl ? "metrics.jsonl" : "tensorboard");
}

}  // namespace

int metrics_export_command(const MetricsExportArguments& arguments) {
  const JoinedMetrics metrics = find_run_files(arguments.run).metrics();
  fs::path output = output_of(arguments);
  if (arguments.tensorboard)
    output = export_events(metrics, output);
  else
    export_table(metrics, arguments.csv ? TableFormat::kCsv : TableFormat::kJsonl, output);
  console::line("metrics   {} steps: {}", metrics.rows(), output.string());
  return 0;
}

}  // namespace sluice
