#include "base/error.hpp"
#include "base/log.hpp"
#include "checkpoint/step_directory.hpp"
#include "comm/outcome.hpp"
#include "config/job_config.hpp"
#include "io/child_program.hpp"
#include "io/file.hpp"
#include "job/commands/commands.hpp"
#include "launch/slurm/allocation.hpp"
#include "launch/slurm/submission.hpp"
#include "process/console.hpp"

#include <nlohmann/json.hpp>

#include <csignal>
#include <optional>
#include <string>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr double kSlurmSeconds = 60;

struct RequeueArguments {
  JobArguments job;
  int limit = 3;  ///< most restarts in a row that have saved no later step
};

/// Record of the restarts of a Slurm job, requeues.json in the run directory.
struct Restarts {
  std::string slurm_job;
  std::int64_t count = 0;
  std::int64_t without_progress = 0;
  std::int64_t saved_step = -1;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Restarts, slurm_job, count, without_progress, saved_step)

/// Reads the record of restarts. For a task of an array, earlier versions wrote the task's number alone.
Restarts read_restarts(const fs::path& file, const SlurmJobName& job) {
  constexpr std::int64_t kMostBytes = 64 * kKiB;
  Restarts restarts;
  // Without the file the job has not been requeued; one that cannot be read is another program's.
  static_cast<void>(outcome_of([&] {
    const auto record = nlohmann::json::parse(read_text_file(file, kMostBytes)).get<Restarts>();
    if (record.slurm_job == job.name || record.slurm_job == job.number) restarts = record;
  }));
  restarts.slurm_job = job.name;
  return restarts;
}

/// Value of a field in scontrol's output: "RUNNING" for JobState in "... JobState=RUNNING Reason=None ...".
std::string field_of(const std::string& text, const std::string& name) {
  const std::string begin = " " + name + "=";
  const std::size_t found = text.find(begin);
  if (found == std::string::npos) return "";
  const std::size_t first = found + begin.size();
  return text.substr(first, text.find_first_of(" \n", first) - first);
}

/// Reason why Slurm must not be asked to requeue the job, or "". A job that Slurm preempts without grace is
/// back in its queue already, and a cancelled job must not come back; both are completing. A job that ran
/// into its time limit is completing too, and must be requeued.
std::string reason_to_leave(const std::string& job) {
  const auto answer = run_program({"scontrol", "show", "job", job, "--oneliner"}, kSlurmSeconds);
  if (!answer || answer->status != 0) return "";  // the request to requeue will tell what is wrong
  const std::string state = field_of(answer->output, "JobState");
  if (state == "RUNNING" || field_of(answer->output, "Reason") == "TimeLimit") return "";
  return fmt::format(
      "Slurm is ending it (state {}): what it preempts it requeues by itself, and what was cancelled ends",
      state);
}

/// The job's nodes, as Slurm writes them, if each keeps its own part of the checkpoint; "" if the checkpoint
/// is on a shared disk.
std::string nodes_with_step(const std::string& job, const fs::path& step) {
  if (read_manifest(step).hosts.empty()) return "";
  const auto answer = run_program({"squeue", "--noheader", "--format=%N", "--jobs=" + job}, kSlurmSeconds);
  if (!answer || answer->status != 0) return "";
  return answer->output.substr(0, answer->output.find_first_of(" \n"));
}

/// Asks Slurm for these nodes when the job is requeued.
void ask_for_nodes(const std::string& job, const std::string& nodes) {
  const auto answer =
      run_program({"scontrol", "update", "JobId=" + job, "ReqNodeList=" + nodes}, kSlurmSeconds);
  if (!answer || answer->status != 0)
    log::warning("job {} could not be bound to {}, whose disks have the checkpoints: {}", job, nodes,
                 answer ? answer->output : "scontrol did not answer");
}

/// Requeues a Slurm job after it has ended with kResumable, unless Slurm does that itself, somebody has
/// cancelled it, or restarts are futile. For scripts that Slurm runs. The exit status is kDone except in the
/// last case.
int requeue_command(const RequeueArguments& arguments) {
  const std::optional<SlurmJobName> name = slurm_job_name();
  if (!name)
    fail(ExitCode::kUsage,
         "sluice requeue is for scripts that Slurm runs; the variable SLURM_JOB_ID is not set");
  const std::string& job = name->name;
  const JobConfig config = load_job_config(arguments.job.file, arguments.job.overrides);
  if (const std::string reason = reason_to_leave(job); !reason.empty()) {
    console::line("job {} is not requeued: {}", job, reason);
    return 0;
  }
  const fs::path file = config.job.output / "requeues.json";
  const std::vector<StepPlace> steps = list_steps(checkpoint_directory(config));
  const std::int64_t saved = steps.empty() ? 0 : steps.back().step;
  Restarts restarts = read_restarts(file, *name);
  restarts.without_progress = saved > restarts.saved_step ? 0 : restarts.without_progress + 1;
  restarts.saved_step = saved;
  ++restarts.count;
  if (restarts.without_progress >= arguments.limit)
    fail(
        ExitCode::kResumable,
        "job {} is not requeued: {} restarts in a row have saved no step after step {}. Its time limit must "
        "have room for loading, a step and a save beside checkpoint.margin_seconds; submit it again to go on",
        job, arguments.limit, saved);
  write_text_file(file, nlohmann::json(restarts).dump(2) + "\n");
  note_submission(config.job.output, job);
  const std::string nodes = steps.empty() ? "" : nodes_with_step(job, steps.back().path);
  // Slurm ends this process too as soon as it is asked, first by SIGTERM.
  ::signal(SIGTERM, SIG_IGN);
  console::line("job {} is requeued, the {}. time; step {} is saved{}", job, restarts.count, saved,
                nodes.empty() ? ""
                              : fmt::format(" on the disks of {}, which it asks for again (scontrol update "
                                            "JobId={} ReqNodeList= takes others)",
                                            nodes, job));
  const auto answer = run_program({"scontrol", "requeue", job}, kSlurmSeconds);
  if (!answer || answer->status != 0)
    fail(ExitCode::kIo, "job {} could not be requeued: {}; submit it again to go on", job,
         answer ? answer->output : "scontrol could not be started, or did not answer");
  if (!nodes.empty()) ask_for_nodes(job, nodes);
  return 0;
}

}  // namespace

void add_requeue(CommandLine& line) {
  const auto [command, arguments] = add_command<RequeueArguments>(
      line, "requeue", "For job scripts: requeue a Slurm job that ended with 75", requeue_command);
  add_job_arguments(command, arguments.job);
  command.add_option("--limit", arguments.limit, "Restarts in a row that may save no later step")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
}

}  // namespace sluice
