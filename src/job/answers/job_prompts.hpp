// The prompts of a job file, read and made ready before anything is computed.
#pragma once

#include "config/job_config.hpp"
#include "job/answers/prompts.hpp"
#include "model/model_config.hpp"
#include "text/tokenizer.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace sluice {

/// Whether the job answers prompts of generate.prompts, after its training or while it trains.
[[nodiscard]] bool answers_prompts(const JobConfig& config);

/// The model's tokenizer, to look for generate.stop in answers. Error(kBadData) if it has none.
[[nodiscard]] std::shared_ptr<const text::Tokenizer> tokenizer_for_stops(const std::filesystem::path& model);

struct JobPrompts {
  std::vector<Prompt> prompts;                         ///< prompts and their tokens
  std::shared_ptr<const text::Tokenizer> tokenizer{};  ///< null where the model has none
};

/// The prompts of generate.prompts. `tokenizer` is that of the model if it is known already. Errors of
/// read_prompts(), encode_prompts() and require_answerable().
[[nodiscard]] JobPrompts read_job_prompts(const JobConfig& config, const ModelConfig& model,
                                          std::shared_ptr<const text::Tokenizer> tokenizer = nullptr);

}  // namespace sluice
