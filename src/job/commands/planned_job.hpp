// The job that is planned: a job file's, or one with all defaults that trains a model.
#pragma once

#include "config/job_config.hpp"
#include "job/commands/job_arguments.hpp"

namespace sluice {

/// load_job_config(), where a directory, or a file named config.json, stands for a job that trains that
/// model; its other keys have their defaults, or what the overrides say.
[[nodiscard]] JobConfig planned_job(const JobArguments& arguments);

}  // namespace sluice
