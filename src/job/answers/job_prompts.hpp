// Prompts of a job file, read and encoded before anything is computed.
#pragma once

#include "config/job_config.hpp"
#include "job/answers/prompts.hpp"
#include "model/model_config.hpp"
#include "text/tokenizer.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace sluice {

/// Whether the job answers generate.prompts, after its training or while it trains.
[[nodiscard]] bool answers_prompts(const JobConfig& config);

/// Tokenizer of the model, for finding generate.stop in answers. Error(kBadData) if there is none.
[[nodiscard]] std::shared_ptr<const text::Tokenizer> tokenizer_for_stops(const std::filesystem::path& model);

struct JobPrompts {
  std::vector<Prompt> prompts;                         ///< prompts with their tokens
  std::shared_ptr<const text::Tokenizer> tokenizer{};  ///< tokenizer of the model; null if it has none
};

/// Reads generate.prompts. `tokenizer` is the model's, if it is known already. Errors of read_prompts(),
/// encode_prompts() and require_answerable().
[[nodiscard]] JobPrompts read_job_prompts(const JobConfig& config, const ModelConfig& model,
                                          std::shared_ptr<const text::Tokenizer> tokenizer = nullptr);

}  // namespace sluice
