// Functions that the jobs which answer prompts share.
#pragma once

#include "config/job_config.hpp"
#include "generate/generator.hpp"
#include "job/answers/job_prompts.hpp"
#include "job/job.hpp"

#include <functional>
#include <vector>

namespace sluice {

/// Generation options of a job's settings.
[[nodiscard]] GenerationOptions generation_options(const JobConfig& config);

/// Collective over the context's communicator. The prompts of the command line, or on rank 0 those of
/// generate.prompts, and the tokenizer, with generate.stop on every rank, since any of them may have to find
/// it in its answers. Rank 0 prints a line with the keys of the prompts' rows that were not used, if there are
/// any. Errors of tokenizer_for_stops() and read_job_prompts(), on every rank.
[[nodiscard]] JobPrompts prompts_of(JobContext& context);

/// Collective over `comm`. Requests that rank 0 makes, on every rank; an error on rank 0 is thrown on all.
[[nodiscard]] std::vector<GenerationRequest> share_requests(
    Communicator& comm, const std::function<std::vector<GenerationRequest>()>& make);

}  // namespace sluice
