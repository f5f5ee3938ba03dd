#include "job/commands/commands.hpp"
#include "job/run/run_job.hpp"
#include "process/console.hpp"
#include "process/signal_watch.hpp"

namespace sluice {
namespace {

/// Runs a job on all ranks. Collective over the processes that mpirun or srun started.
int run_command(const JobArguments& arguments) {
  SignalWatch signals;
  return run_attempt(prepare_attempt(arguments), signals);
}

}  // namespace

void add_run(CommandLine& line) {
  const auto [command, arguments] = add_command<JobArguments>(
      line, "run", "Run a job, under mpirun or srun, or alone as one rank", run_command);
  add_job_arguments(command, arguments);
  command.footer("\nKeys of a job file:\n\n" + describe_schema(console::text_columns()));
}

}  // namespace sluice
