// Functions that the jobs which answer prompts share.
#pragma once

#include "config/job_config.hpp"
#include "generate/generator.hpp"
#include "job/answers/prompts.hpp"
#include "job/job.hpp"
#include "text/tokenizer.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace sluice {

/// Generation options of a job's settings.
[[nodiscard]] GenerationOptions generation_options(const JobConfig& config);

/// Collective over the context's communicator. The model's tokenizer on every rank, since any of them may
/// have to find generate.stop in its answers; null without that key. Error(kBadData) if the model has none.
[[nodiscard]] std::shared_ptr<const text::Tokenizer> find_tokenizer_for_stops(JobContext& context);

/// Collective over `comm`. Requests that rank 0 makes, on every rank; an error on rank 0 is thrown on all.
[[nodiscard]] std::vector<GenerationRequest> share_requests(
    Communicator& comm, const std::function<std::vector<GenerationRequest>()>& make);

/// Prints a line with the keys of the prompts' rows that were not used, if there are any.
void tell_unused_keys(const std::vector<Prompt>& prompts);

}  // namespace sluice
