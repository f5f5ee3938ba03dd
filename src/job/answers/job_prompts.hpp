// Prompts of a job file or a command line, read and encoded before anything is computed.
#pragma once

#include "config/job_config.hpp"
#include "job/answers/prompts.hpp"
#include "model/model_config.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

/// Whether the job answers generate.prompts, after its training or while it trains.
[[nodiscard]] bool answers_prompts(const JobConfig& config);

/// Tokenizer of the model, for finding generate.stop in answers. Error(kBadData) if there is none.
[[nodiscard]] std::shared_ptr<const text::Tokenizer> tokenizer_for_stops(const std::filesystem::path& model);

struct JobPrompts {
  std::vector<Prompt> prompts{};                       ///< prompts with their tokens
  std::shared_ptr<const text::Tokenizer> tokenizer{};  ///< tokenizer of the model; null if it has none
};

/// How answers are printed.
enum class AnswerForm : std::uint8_t {
  kText,    ///< answers are printed as they come
  kTokens,  ///< only token ids are printed, a line for each answer
  kJson,    ///< answers are printed as JSON, one object per line
};

/// Request of a command line to a model, besides the settings of [generate]. The tokenizer is also null if none
/// is needed.
struct GenerateRequest : JobPrompts {
  AnswerForm form = AnswerForm::kText;
  /// Whether prompts come from standard input, each after the answer to the last one.
  bool is_conversation = false;
  std::string system{};           ///< system prompt of a conversation, or ""
  std::filesystem::path trace{};  ///< directory for the trace of trace.steps, or ""
};

/// Reads generate.prompts. `tokenizer` is the model's, if it is known already. Errors of read_prompts(),
/// encode_prompts() and require_answerable().
[[nodiscard]] JobPrompts read_job_prompts(const JobConfig& config, const ModelConfig& model,
                                          std::shared_ptr<const text::Tokenizer> tokenizer = nullptr);

}  // namespace sluice
