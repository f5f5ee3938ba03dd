// Runs one job: in a process that starts MPI for it, or on communicators that exist already.
#pragma once

#include "comm/mpi/mpi_environment.hpp"
#include "comm/outcome.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/exec_compute_program.hpp"
#include "job/prepare/blueprint.hpp"
#include "process/signal_watch.hpp"

#include <memory>

namespace sluice {

/// Blueprint that this rank made of the job file and the model's description, or the failure.
struct Attempt {
  std::unique_ptr<const JobConfig> config;           ///< config of the job; null after a failure
  std::shared_ptr<const Blueprint> blueprint;        ///< blueprint of the job; null after a failure
  std::unique_ptr<const GenerateRequest> request{};  ///< prompts of `sluice generate`; null for a job file
  Outcome outcome{};
};

/// Parts of the process that a job runs in. All of it outlives the job.
struct JobLinks {
  /// Communicator over the ranks of this job: all ranks of the process's MPI world, or some of them.
  Communicator& comm;
  MpiEnvironment& mpi;  ///< MPI state of the process; elects the rank that reports a failure
  SignalWatch& signals;
};

/// Reads the job file and describes its model. Failures are kept in the attempt's outcome: MPI starts in any
/// case, because a rank that leaves before the others know would strand them. If another program computes
/// jobs of this kind, the process becomes that program.
[[nodiscard]] Attempt prepare_attempt(const JobArguments& arguments);

/// Agrees with the other ranks on the job and runs it: its own run directory, log file, deadlines and
/// devices. What it changes of the process is put back when it returns, so that the next job in the same
/// process sees nothing of it.
///
/// Collective over links.comm. Returns how the job ended, alike on all ranks; `text` is what is to be printed
/// once, by rank 0, of a job that was refused or failed on all ranks together. Does not return where
/// something failed on one rank alone: all processes of the MPI world end with that failure's exit code, and
/// one of the failing ranks reports it on stderr.
[[nodiscard]] Outcome run_job(const Attempt& attempt, const JobLinks& links);

/// Starts MPI, runs the job on all ranks and ends MPI, or reports why the job cannot run; returns the exit
/// status. Collective over the processes that mpirun or srun started.
[[nodiscard]] int run_attempt(const Attempt& attempt, SignalWatch& signals);

}  // namespace sluice
