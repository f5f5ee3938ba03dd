// Replaces this program by the one with LibTorch, for jobs that compute.
#pragma once

#include "config/job_config.hpp"
#include "job/commands/commands.hpp"

namespace sluice {

/// If the job's kind runs in another program, replaces this process by that one under the same `run` command,
/// which keeps its rank: nothing of MPI may have started. Error(kBadConfig) if that program does not lie
/// beside this one; Error(kInternal) if the system refuses to start it.
void exec_compute_program(const JobConfig& config, const JobArguments& arguments);

}  // namespace sluice
