// Puts a Slurm job back into the queue.
#pragma once

#include "job/commands/job_arguments.hpp"

namespace sluice {

struct RequeueArguments {
  JobArguments job;
  int limit = 3;  ///< restarts in a row that have saved no later step
};

/// Puts a Slurm job back into the queue after it has ended with kResumable, unless Slurm does that itself,
/// somebody has cancelled it, or restarting is futile. For scripts that Slurm runs. The exit status is kDone
/// but in the last case.
int requeue_command(const RequeueArguments& arguments);

}  // namespace sluice
