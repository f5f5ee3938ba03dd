// Commands that are given a job file.

#include "commands.hpp"
#include "config/job_config.hpp"
#include "job/console.hpp"
#include "options.hpp"

namespace sluice {
namespace {

void add_run(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<JobArguments>(
      app, action, "run", "Run a job, under mpirun or srun, or alone as one rank", run_command);
  add_job_arguments(command, arguments);
  command.footer("\nKeys of a job file:\n\n" + describe_schema(console::text_columns()));
}

void add_launch(CLI::App& app, Action& action, const Words& rank_command) {
  const auto [command, arguments] = add_command<LaunchArguments>(
      app, action, "launch", "Run a job under mpirun; Ctrl-C once lets it save and end with 75",
      launch_command);
  arguments.command = rank_command;
  add_job_arguments(command, arguments.job);
  add_ranks(command, "-n,--ranks", arguments.ranks, "Number of ranks")->required();
  command.add_option("options", arguments.launcher_options, "Options of mpirun, behind --");
  command.footer("\nIn place of a job file: generate or chat and their arguments.");
}

void add_check(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<CheckArguments>(
      app, action, "check", "Find all that a run would fail for, without a launch", check_command);
  add_job_arguments(command, arguments.job);
  add_ranks(command, "--ranks", arguments.ranks, "Number of ranks to plan for")->capture_default_str();
  add_size(command, "--memory", arguments.memory_bytes,
           "Memory of one rank, such as 128.5GB; left out: what this machine has");
}

void add_plan(CLI::App& app, Action& action) {
  const auto [command, arguments] =
      add_command<PlanArguments>(app, action, "plan", "Memory of each rank, by purpose", plan_command);
  add_job_arguments(command, arguments.job,
                    "Job file, or a model directory or config.json to train with defaults");
  add_ranks(command, "--ranks", arguments.ranks, "Number of ranks")->required();
  add_size(command, "--memory", arguments.memory_bytes, "Memory of one rank, such as 128.5GB");
  add_size(command, "--disk-rate", arguments.disk_rate,
           "Bytes a second of a rank's disk, for memory.offload, such as 2GB");
  command.add_flag("--json", arguments.json, "Print JSON");
}

void add_submit(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<SubmitArguments>(
      app, action, "submit", "Write a job script into the run directory and call sbatch", submit_command);
  add_job_arguments(command, arguments.job);
  command.add_flag("--mpirun", arguments.with_mpirun, "Start ranks with mpirun instead of srun");
  command.add_flag("--dry-run", arguments.dry_run, "Print the script and the command, and do nothing");
  command.add_flag("!--no-check", arguments.checks, "Do not look for what the job would fail for first");
  command.add_flag("--test-only", arguments.test_only, "Let Slurm say when it would start the job");
  command.add_option("options", arguments.sbatch_options, "Options of sbatch, behind --");
}

void add_requeue(CLI::App& app, Action& action) {
  const auto [command, arguments] = add_command<RequeueArguments>(
      app, action, "requeue", "For job scripts: requeue a Slurm job that ended with 75", requeue_command);
  add_job_arguments(command, arguments.job);
  command.add_option("--limit", arguments.limit, "Restarts in a row that may save no later step")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
}

}  // namespace

void add_job_commands(CLI::App& app, Action& action, const Words& rank_command) {
  add_run(app, action);
  add_launch(app, action, rank_command);
  add_check(app, action);
  add_plan(app, action);
  add_submit(app, action);
  add_requeue(app, action);
}

}  // namespace sluice
