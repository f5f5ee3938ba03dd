#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "comm/crash_report.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/nodes.hpp"
#include "comm/outcome.hpp"
#include "comm/watchdog.hpp"
#include "device/memory.hpp"
#include "job/baseline.hpp"
#include "job/commands/attempt.hpp"
#include "job/commands/commands.hpp"
#include "job/console.hpp"
#include "job/exec_compute_program.hpp"
#include "job/job.hpp"
#include "job/prepare/connect_gpus.hpp"
#include "job/prepare/device_choice.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/optimizer_choice.hpp"
#include "job/prepare/process_limits.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/saving/resume_point.hpp"
#include "job/signal_watch.hpp"
#include "job/threads.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// The file is read more than once on each rank: by the program that computes too.
void require_readable_again(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error))
    fail(ExitCode::kBadConfig,
         "{} is no regular file. Every rank reads the job file, some more than once: write it to a file that "
         "all of "
         "them see",
         file.string());
}

/// MPI starts whatever this finds: a rank that leaves before the others know would strand them.
Attempt prepare(const JobArguments& arguments) {
  Attempt attempt;
  try {
    require_descriptors();
    require_readable_again(arguments.file);
    attempt.config =
        std::make_unique<JobConfig>(with_saved_mode(load_job_config(arguments.file, arguments.overrides)));
    require_device_in_build(attempt.config->device);
    exec_compute_program(*attempt.config, run_words(arguments));
    attempt.blueprint = std::make_unique<Blueprint>(*attempt.config);
  } catch (...) {
    attempt.outcome = current_failure();
  }
  return attempt;
}

AgreementResult agree_on_job(Communicator& comm, const Attempt& attempt) {
  AgreementClaim claim;
  if (!attempt.outcome.failed()) claim.topics = agreement_topics(*attempt.blueprint);
  claim.outcome = attempt.outcome;
  return agree(comm, claim);
}

/// How long a rank that stays silent waits to be ended by the one that speaks.
constexpr unsigned kSilenceSeconds = 30;
/// How long writing down or printing a failure may take, into pipes and file systems that may never answer.
constexpr unsigned kFailureReporterElectionSeconds = 10;

void report_failure(const Communicator& comm, const Outcome& failure) {
  console::report(fmt::format("sluice: rank {} of {} failed, so the job ends with exit code {}:\n  {}",
                              comm.rank(), comm.size(), static_cast<int>(failure.code), failure.text));
}

[[noreturn]] void end_job(MpiEnvironment& mpi, const Outcome& failure) {
  if (!mpi.elect_failure_reporter()) {
    exit_within(kSilenceSeconds + kFailureReporterElectionSeconds, failure.code);
    std::this_thread::sleep_for(std::chrono::seconds(kSilenceSeconds));
    MpiEnvironment::abort(failure.code);
  }
  exit_within(kFailureReporterElectionSeconds, failure.code);
  report_failure(mpi.world(), failure);
  MpiEnvironment::abort(failure.code);
}

void print_notes(const JobContext& context) {
  if (!context.is_root()) return;
  if (context.device.kind == DeviceKind::kCuda || !context.device.lack.empty())
    console::line("device    {}", device_text(context.device));
  const int world = context.comm.size();
  if (context.device.kind == DeviceKind::kCuda && world > 1 && !has_nccl())
    console::line("note      this build has no NCCL: between GPUs all goes through main memory and MPI");
  for (const auto& notes :
       {launch_notes(world), job_notes(context.config(), context.blueprint.model.config, world)})
    for (const std::string& note : notes) console::line("note      {}", note);
}

/// The job with the mode of its optimizer, where that is left to be chosen.
std::optional<Blueprint> choose_mode(const JobConfig& config, std::span<const std::int64_t> limits,
                                     std::span<const int> nodes, int threads, const RunDirectory& directory,
                                     bool is_root) {
  if (!chooses_mode(config)) return std::nullopt;
  const FittedJob job = fit_optimizer(config, limits, nodes, threads);
  if (!job.lack.empty()) fail(ExitCode::kTooLittle, "{}", job.lack);
  directory.set_job(job.config);
  if (is_root) console::line("{}", choice_text(job.config.optimizer.mode(), std::ranges::min(limits)));
  return std::optional<Blueprint>(std::in_place, job.config);
}

/// The devices of a job, or why it has none that it can use, alike on all ranks.
struct Devices {
  std::vector<int> nodes;  ///< of each rank
  DeviceChoice choice;
  Outcome refusal;
};

/// Collective over `comm`. What the job computes with is allocated there from here on.
Devices find_devices(const JobConfig& config, Communicator& comm) {
  Devices devices{find_nodes(comm), {}, {}};
  const DeviceKind wanted = config.device.kind;
  if (wanted == DeviceKind::kCpu || !has_cuda() || !find_job(config.job.kind).uses_gpus) return devices;
  const std::vector<DeviceClaim> claims = exchange_claims(comm, devices.nodes);
  devices.refusal = outcome_of([&] { devices.choice = choose_devices(wanted, claims, devices.nodes); });
  if (devices.choice.kind == DeviceKind::kCuda && !devices.refusal.failed()) {
    use_claimed_gpu(comm, claims[static_cast<std::size_t>(comm.rank())]);
    compute_in(MemoryKind::kDevice);
  }
  return devices;
}

/// For an end that all ranks know of: nobody has to be told.
int end_alike(const Communicator& comm, SignalWatch& signals, ExitCode code, const std::string& report) {
  signals.set_exit_code(code);
  exit_within(kFailureReporterElectionSeconds, code);
  if (comm.rank() == 0) console::report(report);
  return static_cast<int>(code);
}

/// Returns how the job has ended.
ExitCode run_job(const Attempt& attempt, const Devices& devices, MpiEnvironment& mpi, SignalWatch& signals) {
  const Blueprint& written = *attempt.blueprint;
  Communicator& comm = mpi.world();
  const Job& job = find_job(written.config.job.kind);
  static_cast<void>(written.shard_plan(comm.size()));  // what it refuses leaves no run directory
  RunDirectory directory(written.config, comm);
  ExitCode ending = ExitCode::kDone;
  const SignalWatch::SignalCallback on_signal(signals, [&](int number, ExitCode code) {
    if (mpi.has_cause()) return;
    directory.set_ended_by(number, code, mpi.crash_text());
    if (code == ExitCode::kResumable && comm.rank() == 0)
      console::line("ended     by {}: all that was trained is saved; run again to go on",
                    signal_name(number));
  });
  mpi.on_stall([&](const Outcome& failure) {
    if (mpi.claim_cause()) directory.set_failed(failure);
    if (mpi.elect_failure_reporter()) report_failure(mpi.world(), failure);
  });
  try {
    comm.barrier();  // rank 0 has the directory to itself from here on
    directory.begin_log();
    const Stopwatch watch;
    const int threads = threads_per_rank(written.config.parallel.threads, usable_cores(), mpi.sharing_ranks(),
                                         most_threads());
    if (job.start) {
      comm.set_deadline("start", written.config.deadline.setup_seconds);
      job.start(threads);
      comm.set_deadline("setup", written.config.deadline.setup_seconds);
    }
    std::unique_ptr<Communicator> gpus;
    if (devices.choice.kind == DeviceKind::kCuda) gpus = connect_gpus(comm);
    const MemorySample baseline = take_baseline(comm);
    fault_point("job.baseline", comm.rank());  // a place to look from outside
    const std::vector<std::int64_t> limits =
        growth_limits(comm, written.config, devices.nodes, devices.choice, baseline);
    const std::optional<Blueprint> fitted =
        choose_mode(written.config, limits, devices.nodes, threads, directory, comm.rank() == 0);
    const Blueprint& blueprint = fitted ? *fitted : written;
    const ShardPlan plan = blueprint.shard_plan(comm.size());
    Communicator& links = gpus ? *gpus : comm;
    JobContext context{blueprint,     plan,   comm,    links,          directory, baseline,
                       devices.nodes, limits, threads, devices.choice, signals};
    context.request = attempt.request.get();
    log::debug("compute   threads: {}, usable cores: {}, ranks that share them: {}", threads, usable_cores(),
               mpi.sharing_ranks());
    print_notes(context);
    if (devices.choice.kind == DeviceKind::kCuda && job.limit_device_memory) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      job.limit_device_memory(left_for_libraries(context.memory_plan()[rank], limits[rank]));
    }
    job.run(context);
    ending = context.ending;
    log::debug("done      after {:.1f} s; highest resident set {}, {} sent, {} received", watch.seconds(),
               format_bytes(peak_resident_bytes()), format_bytes(comm.traffic().sent_bytes),
               format_bytes(comm.traffic().received_bytes));
    comm.set_deadline("finish", written.config.deadline.finish_seconds);
    comm.barrier();
  } catch (...) {
    const Outcome failure = current_failure();
    exit_within(kFailureReporterElectionSeconds, failure.code);
    if (mpi.claim_cause()) directory.set_failed(failure);
    throw;
  }
  directory.set_done(ending);
  signals.set_exit_code(ending);
  return ending;
}

}  // namespace

int run_attempt(const Attempt& attempt, SignalWatch& signals) {
  install_crash_report();
  if (attempt.config && has_saved_steps(*attempt.config)) signals.set_exit_code(ExitCode::kResumable);
  const double setup_seconds =
      attempt.config ? attempt.config->deadline.setup_seconds : DeadlineSettings().setup_seconds;
  MpiEnvironment mpi(setup_seconds);
  Communicator& comm = mpi.world();
  log::set_rank(comm.rank(), comm.size());
  ExitCode ending = ExitCode::kDone;
  try {
    comm.set_deadline("setup", setup_seconds);
    const AgreementResult agreed = agree_on_job(comm, attempt);
    if (agreed.code != ExitCode::kDone) return end_alike(comm, signals, agreed.code, agreed.report);
    const Devices devices = find_devices(*attempt.config, comm);
    if (devices.refusal.failed())
      return end_alike(comm, signals, devices.refusal.code, "sluice: " + devices.refusal.text);
    ending = run_job(attempt, devices, mpi, signals);
  } catch (...) {
    const Outcome failure = current_failure();
    signals.set_exit_code(failure.code);
    end_job(mpi, failure);
  }
  mpi.finalize(attempt.config->deadline.finish_seconds);
  return static_cast<int>(ending);
}

int run_command(const JobArguments& arguments) {
  SignalWatch signals;
  return run_attempt(prepare(arguments), signals);
}

}  // namespace sluice
