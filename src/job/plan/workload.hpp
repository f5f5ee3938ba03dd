// Workload from a job's settings and machines.
#pragma once

#include "config/job_config.hpp"
#include "job/plan/machine.hpp"
#include "plan/workload.hpp"

namespace sluice {

/// Workload of a job on machines. With memory.offload, what exceeds nine tenths of the smallest growth limit goes to a
/// disk, or stays in the model's files.
[[nodiscard]] Workload workload_of(const JobConfig& config, const Machine& machine);

/// Whether nodes may each save to a disk of their own: there are several, and checkpoint.storage is "node", or "auto",
/// where only a trial in the run tells.
[[nodiscard]] bool may_save_apart(const JobConfig& config, const Machine& machine);

}  // namespace sluice
