// What a job's settings mean for the memory that it takes.
#pragma once

#include "config/job_config.hpp"
#include "plan/workload.hpp"

namespace sluice {

[[nodiscard]] Workload workload_of(const JobConfig& config);

/// Sets what a Workload keeps from forward to backward.
void set_recompute(Workload& work, Recompute recompute);
/// Sets what a Workload does, with weights that are kept.
void set_kind(Workload& work, JobKind kind);

}  // namespace sluice
