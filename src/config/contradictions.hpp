// Rules between keys of a job file, each of which has a value that it takes by itself.
#pragma once

#include "config/job_config.hpp"
#include "config/job_problems.hpp"

namespace sluice {

/// Adds the contradictions between the keys of `config` to `problems`. Writes what one key of [optimizer]
/// says of another into that one: `gradients` by its earlier name, and the state format that the kind has,
/// where fit = "auto" chooses it.
void check_contradictions(JobConfig& config, JobProblems& problems);

}  // namespace sluice
