// The files of a job that every host needs.
#pragma once

#include "config/job_config.hpp"
#include "launch/handover.hpp"

#include <filesystem>
#include <vector>

namespace sluice {

/// The files that each rank of a job reads, as far as they are on this host: the job file, token files,
/// prompts, what lies beside the weights of a model directory, an adapter that PEFT saved, and of each saved
/// step that the job names as a model or an adapter its manifest and companion files. Not the weights of
/// models and steps, which load.readers = "rank0" reads on rank 0's host alone: other hosts get a manifest
/// that says that they lie on this one.
[[nodiscard]] std::vector<JobInput> job_inputs(const std::filesystem::path& job_file,
                                               const JobConfig& config);

}  // namespace sluice
