// Common path of the commands that run a job.
#pragma once

#include "job/commands/job_arguments.hpp"
#include "job/run/run_job.hpp"

namespace sluice {

/// Reads the job file and describes its model. What goes wrong is kept in the attempt's outcome: MPI starts
/// whatever this finds, since a rank that leaves before the others know would strand them. Where another
/// program computes jobs of this kind, the process becomes that program.
[[nodiscard]] Attempt prepare_attempt(const JobArguments& arguments);

/// Starts MPI, runs the job on all ranks and ends MPI, or reports why the job cannot run; returns the exit
/// status. Collective over the processes that mpirun or srun started.
[[nodiscard]] int run_attempt(const Attempt& attempt, SignalWatch& signals);

}  // namespace sluice
