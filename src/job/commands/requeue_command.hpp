// Puts a Slurm job back into the queue.
#pragma once

#include "job/commands/job_arguments.hpp"

namespace sluice {

struct RequeueArguments {
  JobArguments job;
  int limit = 3;  ///< restarts in a row that have saved no later step
};

/// For scripts that Slurm runs, after a job has ended with kResumable: puts the Slurm job back into the queue, unless Slurm does
/// that itself, somebody has cancelled it, or restarting brings nothing. The exit status is kDone but in the last case.
int requeue_command(const RequeueArguments& arguments);

}  // namespace sluice
