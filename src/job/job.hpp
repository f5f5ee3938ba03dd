// A job kind: the functions that run once all ranks agree. A file in jobs/ defines one and registers it.
#pragma once

#include "base/memory/memory.hpp"
#include "comm/communicator.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/blueprint.hpp"
#include "job/prepare/device_choice.hpp"
#include "job/run_directory.hpp"
#include "job/signal_watch.hpp"

#include <string>
#include <vector>

namespace sluice {

/// Everything that a job gets; all of it outlives the job.
struct JobContext {
  const Blueprint& blueprint;
  const ShardPlan& plan;
  Communicator& comm;         ///< communicator for data in main memory
  Communicator& links;        ///< communicator for the memory that is computed in: NCCL's, or `comm` itself
  RunDirectory& directory;    ///< run directory; acts on rank 0, does nothing on other ranks
  MemorySample baseline;      ///< memory of this rank before any header, staging or arena exists
  std::vector<int> nodes;     ///< node of each rank: ranks of one machine that see the same files
  std::vector<int> machines;  ///< machine of each rank, whose memory its ranks share
  std::vector<std::int64_t> growth_limits;  ///< bytes that each rank may hold above its baseline
  int threads;                              ///< compute threads of this rank
  DeviceChoice device;                      ///< device that the job computes on
  SignalWatch& signals;
  ExitCode ending = ExitCode::kDone;  ///< exit code if nothing fails: kDone or kResumable, alike on all ranks
  std::string note{};                 ///< note for status.json if the job ends with kDone, or ""

  /// Request of the command line that runs the job; null for a job file.
  const GenerateRequest* request = nullptr;

  [[nodiscard]] const JobConfig& config() const { return blueprint.config; }
  /// Planned memory of each rank, with as many threads as this one has; staging is an upper bound.
  [[nodiscard]] std::vector<RankMemory> memory_plan() const;
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
