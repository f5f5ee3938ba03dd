// One command, several programs: what computes lives in a program of its own.
#pragma once

#include "job/commands.hpp"
#include "job/job.hpp"

namespace sluice {

/// If `job` runs in another program, replaces this process by that one under the same `run` command, which
/// keeps its rank: nothing of MPI may have started. Error(kBadConfig) if that program does not lie beside
/// this one; Error(kInternal) if the system refuses to start it.
void hand_over(const Job& job, const JobArguments& arguments);

}  // namespace sluice
