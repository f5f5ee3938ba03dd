// What the jobs share that answer prompts.
#pragma once

#include "config/job_config.hpp"
#include "generate/generator.hpp"

#include <functional>
#include <vector>

namespace sluice {

/// How the job's settings want answers.
[[nodiscard]] GenerationOptions generation_options(const JobConfig& config);

/// Collective over `comm`. The requests that rank 0 makes, on every rank; an error there is thrown on all.
[[nodiscard]] std::vector<GenerationRequest> share_requests(
    Communicator& comm, const std::function<std::vector<GenerationRequest>()>& make);

}  // namespace sluice
