// Shared by the jobs that answer prompts.
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

/// How the job's settings want answers.
[[nodiscard]] GenerationOptions generation_options(const JobConfig& config);

/// Collective over the context's communicator. The model's tokenizer on every rank, as any may have to look
/// for generate.stop in its answers; null without that key. Error(kBadData) if the model has none.
[[nodiscard]] std::shared_ptr<const text::Tokenizer> find_tokenizer_for_stops(JobContext& context);

/// Collective over `comm`. The requests that rank 0 makes, on every rank; an error there is thrown on all.
[[nodiscard]] std::vector<GenerationRequest> share_requests(
    Communicator& comm, const std::function<std::vector<GenerationRequest>()>& make);

/// Says in a line which keys of the prompts' rows nothing was made of, if there are any.
void tell_unused_keys(const std::vector<Prompt>& prompts);

}  // namespace sluice
