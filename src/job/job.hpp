// A job kind: the functions that run once all ranks agree. A file in jobs/ defines one and registers it.
#pragma once

#include "base/memory/memory.hpp"
#include "comm/communicator.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/plan/job_plan.hpp"
#include "job/run_directory.hpp"
#include "process/signal_watch.hpp"
#include "shard/rank_sets.hpp"

#include <string>

namespace sluice {

/// Everything that a job gets; all of it outlives the job.
struct JobContext {
  const JobPlan& plan;
  const Blueprint& blueprint;  ///< blueprint of `plan`
  Communicator& comm;          ///< communicator for data in main memory
  const RankSets& sets;        ///< sets of the ranks of `comm`
  Communicator& links;         ///< communicator for the memory that is computed in: NCCL's, or `comm` itself
  RunDirectory& directory;     ///< run directory; acts on rank 0, does nothing on other ranks
  MemorySample baseline;       ///< memory of this rank before any header, staging or arena exists
  SignalWatch& signals;
  ExitCode ending = ExitCode::kDone;  ///< exit code if nothing fails: kDone or kResumable, alike on all ranks
  std::string note{};                 ///< note for status.json if the job ends with kDone, or ""

  /// Request of the command line that runs the job; null for a job file.
  const GenerateRequest* request = nullptr;

  [[nodiscard]] const JobConfig& config() const { return blueprint.config; }
  [[nodiscard]] bool is_root() const { return comm.rank() == 0; }
};

/// Functions of a job kind.
struct Job {
  void (*run)(JobContext& context) = nullptr;

  /// Starts the libraries with which the job computes in `memory`, before the baseline of memory is taken.
  void (*start)(int threads, MemoryKind memory) = nullptr;

  /// Function with a line for --version about libraries that the system has chosen, not the build. Null: no
  /// line.
  std::string (*version_line)() = nullptr;

  /// Function that limits the bytes that libraries take of a GPU besides the job's own allocations. Null:
  /// they take none.
  void (*limit_device_memory)(std::int64_t bytes) = nullptr;
};

/// Makes this program run jobs of a kind. Define one as a namespace-scope object in the job's own file, which
/// only programs that run the kind link.
class JobRegistration {
 public:
  JobRegistration(JobKind kind, const Job& job);
};

/// Job of a kind; null if this program does not run it, but sluice-train, which links LibTorch.
[[nodiscard]] const Job* find_job(JobKind kind);

/// Whether weights of jobs of a kind lie on GPUs, if there are any. Those of an export do not: it computes
/// nothing.
[[nodiscard]] bool uses_gpus(JobKind kind);

}  // namespace sluice
