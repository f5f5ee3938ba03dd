// Request of a command line to a model, besides the settings of [generate].
#pragma once

#include "job/answers/prompts.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

/// How answers are printed.
enum class AnswerForm : std::uint8_t {
  kText,    ///< answers are printed as they come
  kTokens,  ///< only token ids are printed, a line for each answer
  kJson,    ///< answers are printed as JSON, one object per line
};

struct GenerateRequest {
  std::vector<Prompt> prompts;  ///< prompts with their tokens
  /// Tokenizer of the model; null if it has none, or none is needed.
  std::shared_ptr<const text::Tokenizer> tokenizer{};
  AnswerForm form = AnswerForm::kText;
  /// Whether prompts come from standard input, each after the answer to the last one.
  bool is_conversation = false;
  std::string system{};  ///< system prompt of a conversation, or ""
};

}  // namespace sluice
