// Commands that are given a run.

#include "commands.hpp"
#include "options.hpp"

namespace sluice {
namespace {

void add_status(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<StatusArguments>(
      app, action, "status", "Step, loss, tokens/s, time left and last save of runs", status_command);
  command.add_option("runs", arguments.runs, "Run directories")->required();
  command.add_flag("--json", arguments.json, "Print JSON");
}

void add_top(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<TopArguments>(
      app, action, "top", "Watch a run: loss, tokens/s, memory, experts", top_command);
  command.add_option("run", arguments.run, "Run directory")->required();
  command.add_option("--every", arguments.seconds, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

void add_report(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<ReportArguments>(
      app, action, "report", "Write one HTML page that shows runs: loss, speed, memory, experts",
      report_command);
  command.add_option("run", arguments.runs, "Run directories, which may still be running")->required();
  command.add_option("-o,--output", arguments.output,
                     "File to write; left out: report.html in the first run");
}

/// "checkpoint ls RUN" and its like.
void add_checkpoint(CLI::App& app, Action& action) {
  CLI::App& group = *app.add_subcommand("checkpoint", "Saved steps of a run: list, verify, export");
  group.require_subcommand(1);
  const auto add = [&](const char* name, const char* help, int (*run)(const CheckpointArguments&)) {
    const auto part = add_command<CheckpointArguments>(group, action, name, help, run);
    part.app.add_option("run", part.arguments.run, "Run directory, its checkpoint.path, or one saved step")
        ->required();
    return part;
  };
  add("ls", "List the saved steps, and whether they are whole", checkpoint_list_command);
  const auto verifying = add("verify", "Read every byte of them", checkpoint_verify_command);
  add_step(verifying.app, verifying.arguments.step, "Of this step alone: a number, newest or best");
  const auto exporting =
      add("export", "Write a Hugging Face directory, or an adapter for PEFT, from one of them",
          checkpoint_export_command);
  exporting.app.add_option("out_dir", exporting.arguments.output, "Directory to create")->required();
  add_step(exporting.app, exporting.arguments.step,
           "Which: a number, newest or best (lowest held-out loss); left out: the newest");
  exporting.app.add_flag("--merge", exporting.arguments.merge,
                         "Write adapters as a part of the model that they were trained on");
}

void add_metrics_merge(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<MergeArguments>(
      app, action, "merge", "Join the metrics files of a run that was resumed", metrics_merge_command);
  command.add_option("run", arguments.run, "Run directory, or the first of its metrics files")->required();
  command.add_option("-o,--output", arguments.output, "File to write, which may not be there yet")
      ->required();
}

void add_metrics_export(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<MetricsExportArguments>(
      app, action, "export", "Write them in another format", metrics_export_command);
  command.add_option("run", arguments.run, "Run directory")->required();
  CLI::Option_group& format = *command.add_option_group("format");
  format.add_flag("--csv", arguments.csv, "A line a step, a column for each number");
  format.add_flag("--jsonl", arguments.jsonl, "An object a step");
  format.add_flag("--tensorboard", arguments.tensorboard, "An event file, in a directory");
  format.require_option(1);
  command.add_option(
      "-o,--output", arguments.output,
      "File or directory to write; left out: metrics.csv, metrics.jsonl or tensorboard in the run");
}

/// "metrics merge RUN" and its like.
void add_metrics(CLI::App& app, Action& action) {
  CLI::App& group = *app.add_subcommand("metrics", "Metrics files of a run");
  group.require_subcommand(1);
  add_metrics_merge(group, action);
  add_metrics_export(group, action);
}

}  // namespace

void add_run_commands(CLI::App& app, Action& action) {
  add_status(app, action);
  add_top(app, action);
  add_report(app, action);
  add_checkpoint(app, action);
  add_metrics(app, action);
}

}  // namespace sluice
