#include "job/run/run_job.hpp"

#include "comm/failure/crash_report.hpp"
#include "comm/failure/watchdog.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/outcome.hpp"
#include "job/exec_compute_program.hpp"
#include "job/plan/resume_point.hpp"
#include "job/prepare/device_choice.hpp"
#include "job/prepare/process_limits.hpp"
#include "process/rank_record.hpp"
#include "process/signal_watch.hpp"

#include <filesystem>
#include <memory>
#include <system_error>

namespace sluice {
namespace {

/// Refuses a job file that can be read only once: each rank reads it more than once, also in the program that
/// computes.
void require_readable_again(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
    fail(ExitCode::kBadConfig,
         "{} is not a regular file. Every rank reads the job file, some more than once: write it to a file "
         "that all of them see",
         file.string());
}

/// Seconds for printing a failure to a pipe that may never be read.
constexpr unsigned kReportSeconds = 10;

/// Ends a job whose outcome all ranks know, so that nobody has to be told.
int end_alike(const Communicator& comm, SignalWatch& signals, const Outcome& ending) {
  signals.set_exit_code(ending.code);
  exit_within(kReportSeconds, ending.code);
  if (comm.rank() == 0) report_ending(-1, ending, ending.text);
  return static_cast<int>(ending.code);
}

}  // namespace

Attempt prepare_attempt(const JobArguments& arguments) {
  Attempt attempt;
  try {
    require_descriptors();
    require_readable_again(arguments.file);
    attempt.config = std::make_unique<JobConfig>(load_job_config(arguments.file, arguments.overrides));
    require_device_in_build(attempt.config->device);
    exec_compute_program(*attempt.config, run_words(arguments));
    attempt.blueprint = std::make_unique<Blueprint>(*attempt.config);
  } catch (...) {
    attempt.outcome = current_failure();
  }
  return attempt;
}

int run_attempt(const Attempt& attempt, SignalWatch& signals) {
  install_crash_report();
  if (attempt.config && has_saved_steps(*attempt.config)) signals.set_exit_code(ExitCode::kResumable);
  MpiEnvironment mpi(attempt.config ? attempt.config->deadline.setup_seconds
                                    : DeadlineSettings().setup_seconds);
  announce_rank(mpi.world().rank());
  const Outcome ending = run_job(attempt, {mpi.world(), mpi, signals});
  if (!ending.text.empty()) return end_alike(mpi.world(), signals, ending);
  mpi.finalize(attempt.config->deadline.finish_seconds);
  return static_cast<int>(ending.code);
}

}  // namespace sluice
