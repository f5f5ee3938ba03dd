// Common path of the commands that run a job.
#pragma once

#include "job/commands/job_arguments.hpp"
#include "job/run/run_job.hpp"

namespace sluice {

/// Reads the job file and describes its model. Failures are kept in the attempt's outcome: MPI starts in any
/// case, because a rank that leaves before the others know would strand them. If another program computes
/// jobs of this kind, the process becomes that program.
[[nodiscard]] Attempt prepare_attempt(const JobArguments& arguments);

/// Starts MPI, runs the job on all ranks and ends MPI, or reports why the job cannot run; returns the exit
/// status. Collective over the processes that mpirun or srun started.
[[nodiscard]] int run_attempt(const Attempt& attempt, SignalWatch& signals);

}  // namespace sluice
