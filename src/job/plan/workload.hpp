// Workload from a job's settings and machines.
#pragma once

#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "job/plan/machine.hpp"
#include "plan/workload.hpp"

namespace sluice {

/// Collective over `comm`. Most tokens of a distribution in the files of a job's teachers, which rank 0 opens; 0 for
/// files that cannot be read, which the reader of the data tells.
[[nodiscard]] std::int64_t teacher_tokens(Communicator& comm, const JobConfig& config);

/// Workload of a job on machines, with what teacher_tokens() found. With memory.offload, what exceeds nine tenths of
/// the smallest growth limit goes to a disk, or stays in the model's files.
[[nodiscard]] Workload workload_of(const JobConfig& config, const Machine& machine,
                                   std::int64_t teacher_tokens);

/// Whether nodes may each save to a disk of their own: there are several, and checkpoint.storage is "node", or "auto",
/// where only a trial in the run tells.
[[nodiscard]] bool may_save_apart(const JobConfig& config, const Machine& machine);

}  // namespace sluice
