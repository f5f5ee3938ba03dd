#include "job/run/run_job.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/fault.hpp"
#include "base/log.hpp"
#include "base/memory/memory.hpp"
#include "comm/failure/crash_report.hpp"
#include "comm/failure/watchdog.hpp"
#include "comm/nccl/nccl_communicator.hpp"
#include "comm/nodes.hpp"
#include "comm/run_together.hpp"
#include "device/memory.hpp"
#include "job/exec_compute_program.hpp"
#include "job/job.hpp"
#include "job/plan/job_plan.hpp"
#include "job/plan/plan_checks.hpp"
#include "job/plan/plan_json.hpp"
#include "job/plan/resume_point.hpp"
#include "job/plan/stored_weights.hpp"
#include "job/prepare/device_choice.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/start_notes.hpp"
#include "job/prepare/target_place.hpp"
#include "process/console.hpp"
#include "process/host_name.hpp"
#include "process/process_limits.hpp"
#include "process/rank_record.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Seconds for recording or printing a failure, to pipes and file systems that may never answer.
constexpr unsigned kLastWordsSeconds = 10;
/// Seconds that a silent rank waits until the reporting rank ends it.
constexpr unsigned kSilenceSeconds = 30;

std::string failure_report(int rank, int size, const Outcome& failure) {
  return failed_rank_text(rank, size, static_cast<int>(failure.code), failure.text_with_id());
}

/// Reports a failure, with this machine's name if the job has several; a launch on hosts adds the name
/// itself.
void report_failure(const JobLinks& links, const Outcome& failure) {
  const int rank = links.comm.rank(), size = links.comm.size();
  std::string report = failure_report(rank, size, failure);
  if (links.mpi.local_size() < size && !is_launched_on_hosts())
    report += fmt::format("\n  host: {} (rank {})", host_name(), rank);
  report_ending(rank, failure, report);
}

/// Ends all processes of the MPI world with failure.code. One of the failing ranks reports, the others wait
/// for its abort.
[[noreturn]] void end_job(const JobLinks& links, const Outcome& failure) {
  links.signals.set_exit_code(failure.code);
  if (!links.mpi.elect_failure_reporter()) {
    exit_within(kSilenceSeconds + kLastWordsSeconds, failure.code);
    std::this_thread::sleep_for(std::chrono::seconds(kSilenceSeconds));
    MpiEnvironment::abort(failure.code);
  }
  exit_within(kLastWordsSeconds, failure.code);
  report_failure(links, failure);
  MpiEnvironment::abort(failure.code);
}

AgreementResult agree_on_job(Communicator& comm, const Attempt& attempt) {
  AgreementClaim claim;
  if (!attempt.outcome.failed()) claim.topics = agreement_topics(*attempt.blueprint);
  claim.outcome = attempt.outcome;
  return agree(comm, claim);
}

void print_notes(const JobContext& context, const std::vector<std::string>& placement) {
  if (!context.is_root()) return;
  if (context.plan.machine.device.kind == DeviceKind::kCuda || !context.plan.machine.device.lack.empty())
    console::line("device    {}", device_text(context.plan.machine.device));
  if (const std::string note = stored_note(context.blueprint); !note.empty())
    console::line("note      {}", note);
  const int world = context.comm.size();
  if (context.plan.machine.device.kind == DeviceKind::kCuda && world > 1 && !has_nccl())
    console::line("note      this build has no NCCL: between GPUs all goes through main memory and MPI");
  for (const auto& notes :
       {placement, launch_notes(world), job_notes(context.config(), context.blueprint.model, world),
        adapter_notes(context.config(), context.blueprint.model)})
    for (const std::string& note : notes) console::line("note      {}", note);
}

/// Machines and devices of a job, or the failure to find usable devices, the same on all ranks.
struct Devices {
  std::vector<int> machines;  ///< machine of each rank
  DeviceChoice choice;
  Outcome refusal;
};

/// Collective over `comm`. Finds the devices; a GPU that this rank computes on becomes its current one.
Devices find_devices(const JobConfig& config, Communicator& comm) {
  Devices devices{find_nodes(comm), {}, {}};
  const DeviceKind wanted = config.device.kind;
  if (wanted == DeviceKind::kCpu || !has_cuda() || !uses_gpus(config.job.kind)) return devices;
  const std::vector<DeviceClaim> claims = exchange_claims(comm, devices.machines);
  devices.refusal = outcome_of([&] { devices.choice = choose_devices(wanted, claims, devices.machines); });
  if (devices.choice.kind == DeviceKind::kCuda && !devices.refusal.failed()) {
    use_claimed_gpu(comm, claims[static_cast<std::size_t>(comm.rank())]);
  }
  return devices;
}

/// Records why the job ends, unless another rank of this machine does.
void record_failure(const JobLinks& links, RunDirectory& directory, const Outcome& failure) {
  if (!links.mpi.claim_cause()) return;
  fault_point("job.failed", links.comm.rank());
  directory.set_failed(failure);
  links.mpi.cause_is_written();
}

/// Last words of the job when the signal watch or the watchdog ends this rank, each from its own thread.
class LastWords {
 public:
  LastWords(const JobLinks& links, RunDirectory& directory)
      : mpi_(links.mpi), on_signal_(links.signals, [&links, &directory](int number, ExitCode code) {
          if (links.mpi.has_cause()) return;
          directory.set_ended_by(number, code, links.mpi.crash_text());
          if (code == ExitCode::kResumable && links.comm.rank() == 0)
            console::line("ended     by {}: checkpoint saved; run the same command again to resume",
                          signal_name(number));
        }) {
    mpi_.on_stall([&links, &directory](const Outcome& failure) {
      record_failure(links, directory, failure);
      if (links.mpi.elect_failure_reporter()) report_failure(links, failure);
    });
  }
  ~LastWords() { mpi_.on_stall({}); }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  MpiEnvironment& mpi_;
  SignalWatch::SignalCallback on_signal_;
};

/// Starts the libraries with which the job computes. Returns the number of this rank's compute threads.
int start_libraries(const Job& job, const JobConfig& config, MemoryKind memory, const JobLinks& links) {
  const int threads =
      threads_per_rank(config.parallel.threads, usable_cores(), links.mpi.sharing_ranks(), most_threads());
  if (job.start) {
    links.comm.set_deadline("start", config.deadline.setup_seconds);
    job.start(threads, memory);
    links.comm.set_deadline("setup", config.deadline.setup_seconds);
  }
  log::debug("compute   threads: {}, usable cores: {}, ranks that share them: {}", threads, usable_cores(),
             links.mpi.sharing_ranks());
  return threads;
}

/// Collective over `comm`. The first rank's note of its own on something, with the number of ranks that have one;
/// none if no rank has any ("").
std::vector<std::string> shared_note(Communicator& comm, const std::string& own) {
  std::vector<std::string> notes = comm.all_gather_text(own);
  std::erase(notes, "");
  if (notes.size() > 1) notes.front() += fmt::format(". So it is with {} ranks", notes.size());
  notes.resize(std::min<std::size_t>(notes.size(), 1));
  return notes;
}

/// Collective over `comm`. Lines on how the launcher has placed the ranks: bound to fewer cores than their share
/// of their machine, or where they may not read each other's memory.
std::vector<std::string> placement_notes(Communicator& comm, const MpiEnvironment& mpi) {
  std::vector<std::string> notes =
      shared_note(comm, binding_note(comm.rank(), usable_cores(), launcher_cores(), mpi.local_size()));
  std::ranges::move(
      shared_note(comm, single_copy_note(mpi.reads_neighbours(), MpiEnvironment::library_version())),
      std::back_inserter(notes));
  return notes;
}

/// Collective over `comm`. Memory of this process before it does anything for a model, from which growth is
/// counted: code, MPI, libraries, and the buffers that MPI allocates in its first collective.
MemorySample take_baseline(Communicator& comm) {
  std::array<std::int64_t, 1> ranks{1};
  comm.all_reduce_sum(std::span<std::int64_t>(ranks));
  return sample_memory();
}

/// Collective over links.comm. The machines of the ranks, as they are found before anything is done for a model.
Machine measure_machine(const JobConfig& config, const Devices& devices, const std::vector<int>& nodes,
                        int threads, const MemorySample& baseline, const JobLinks& links) {
  return {.nodes = nodes,
          .machines = devices.machines,
          .device = devices.choice,
          .threads = threads,
          .growth_limits = growth_limits(links.comm, config, devices.machines, devices.choice, baseline),
          .own = links.comm.rank()};
}

/// Collective over `comm`. The plan that the run goes by, which rank 0 writes into the run directory.
JobPlan make_plan(const Attempt& attempt, const Machine& machine, Communicator& comm,
                  const RunDirectory& directory) {
  const bool is_root = comm.rank() == 0;
  const TellBroken warn = [is_root](const std::string& text) {
    if (is_root) log::warning("{}", text);
  };
  std::optional<HeldStep> resumed =
      find_resume_point(comm, RankDisks(machine.nodes), attempt.blueprint->config, warn);
  JobPlan plan = JobPlan::make(comm, attempt.blueprint, machine, std::move(resumed));
  if (chooses_mode(attempt.blueprint->config) || plan.has_chosen_replicas) directory.set_job(plan.config());
  if (plan.has_chosen_replicas && is_root) console::line("{}", replicas_text(plan));
  if (plan.chosen_vocabulary && is_root) console::line("{}", vocabulary_text(plan));
  if (plan.is_fitted && plan.lack.empty() && is_root) console::line("{}", choice_text(plan));
  directory.set_plan(json_text(plan));
  return plan;
}

/// Collective over links.comm. Runs the job from its baseline of memory to its last step. Returns how it
/// ends, with the note for status.json on an end by kDone.
Outcome run_on(const Attempt& attempt, const Devices& devices, const std::vector<int>& nodes,
               const JobLinks& links, RunDirectory& directory) {
  const JobConfig& written = attempt.blueprint->config;
  const Job& job =
      *find_job(written.job.kind);  // otherwise the process would have become the program that runs it
  Communicator& comm = links.comm;
  const int threads = start_libraries(job, written, devices.choice.memory(), links);
  std::unique_ptr<Communicator> gpus;
  if (devices.choice.kind == DeviceKind::kCuda) gpus = connect_gpus(comm);
  const MemorySample baseline = take_baseline(comm);
  fault_point("job.baseline", comm.rank());  // fault point at which tests look from outside
  const JobPlan plan =
      make_plan(attempt, measure_machine(written, devices, nodes, threads, baseline, links), comm, directory);
  const RankSets sets(comm, plan.shards.dims());
  JobContext context{plan,      *plan.blueprint, comm,         sets, gpus ? *gpus : comm,
                     directory, baseline,        links.signals};
  context.request = attempt.request.get();
  const std::vector<std::string> placement = placement_notes(comm, links.mpi);
  print_notes(context, placement);
  require_sound(comm, plan);
  if (devices.choice.kind == DeviceKind::kCuda && job.limit_device_memory) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    job.limit_device_memory(left_for_libraries(plan.ranks[rank], plan.machine.growth_limits[rank]));
  }
  job.run(context);
  return {context.ending, context.note};
}

/// Collective over links.comm. Ends a job that failed on every rank at the same place, so that no rank has to
/// be aborted. `directory` is null before there is one.
Outcome end_together(const SharedError& error, const JobLinks& links, RunDirectory* directory) {
  const Outcome failure{error.cause(), error.text()};
  links.signals.set_exit_code(failure.code);
  exit_within(2 * kLastWordsSeconds, failure.code);
  if (directory != nullptr && links.comm.rank() == 0) directory->set_failed(failure);
  try {
    links.comm.set_deadline("finish", kLastWordsSeconds);
    links.comm.barrier();
  } catch (...) {  // a rank is elsewhere after all
    end_job(links, failure);
  }
  log::close_files();
  cancel_exit();
  return {failure, failure_report(error.failing_rank(), links.comm.size(), failure)};
}

/// Collective over links.comm. Runs the job in its run directory.
Outcome run_in_directory(const Attempt& attempt, const Devices& devices, const JobLinks& links) {
  const JobConfig& config = attempt.blueprint->config;
  Communicator& comm = links.comm;
  static_cast<void>(attempt.blueprint->shard_plan(comm.size()));  // refuses before there is a run directory
  const std::vector<int> nodes = find_nodes(comm, files_seen(config));
  std::optional<RunDirectory> made;
  // Rank 0 creates the directory before others use it.
  run_together(comm, [&] { made.emplace(config, comm); });
  RunDirectory& directory = *made;
  const LastWords last_words(links, directory);
  try {
    directory.begin_log();
    const Stopwatch watch;
    const Outcome ending = run_on(attempt, devices, nodes, links, directory);
    log::debug("done      after {:.1f} s; highest resident set {}, {} sent, {} received", watch.seconds(),
               format_bytes(peak_resident_bytes()), format_bytes(comm.traffic().sent_bytes),
               format_bytes(comm.traffic().received_bytes));
    comm.set_deadline("finish", config.deadline.finish_seconds);
    comm.barrier();
    log::close_files();
    directory.set_done(ending.code, ending.text);
    links.signals.set_exit_code(ending.code);
    return {ending, ""};
  } catch (const SharedError& error) {
    return end_together(error, links, &directory);
  } catch (...) {
    const Outcome failure = current_failure();
    exit_within(kLastWordsSeconds, failure.code);
    record_failure(links, directory, failure);
    // Inside the try block, because the watchdog's thread may still write into the directory.
    end_job(links, failure);
  }
}

/// Collective over links.comm. Runs a job on which all ranks agree.
Outcome run_agreed(const Attempt& attempt, const JobLinks& links) {
  Communicator& comm = links.comm;
  comm.set_deadline(
      "setup", attempt.config ? attempt.config->deadline.setup_seconds : DeadlineSettings().setup_seconds);
  const AgreementResult agreed = agree_on_job(comm, attempt);
  if (agreed.code != ExitCode::kDone) return {agreed, agreed.report};
  const Devices devices = find_devices(*attempt.config, comm);
  if (devices.refusal.failed())
    return {devices.refusal, fmt::format("sluice: {}", devices.refusal.text_with_id())};
  return run_in_directory(attempt, devices, links);
}

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

/// Ends a job whose outcome all ranks know, so that nobody has to be told.
int end_alike(const Communicator& comm, SignalWatch& signals, const Outcome& ending) {
  signals.set_exit_code(ending.code);
  exit_within(kLastWordsSeconds, ending.code);
  if (comm.rank() == 0) report_ending(-1, ending, ending.text);
  return static_cast<int>(ending.code);
}

}  // namespace

Outcome run_job(const Attempt& attempt, const JobLinks& links) {
  log::set_rank(links.comm.rank(), links.comm.size());
  const bool resumes = attempt.config && has_saved_steps(*attempt.config);
  links.signals.set_exit_code(resumes ? std::optional(ExitCode::kResumable) : std::nullopt);
  try {
    return run_agreed(attempt, links);
  } catch (const SharedError& error) {
    return end_together(error, links, nullptr);
  } catch (...) {
    end_job(links, current_failure());
  }
}

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
