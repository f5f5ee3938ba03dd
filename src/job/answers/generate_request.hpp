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
  kTokens,  ///< ids alone, a line for each answer
  kJson,    ///< answers are printed as JSON, one object per line
};

struct GenerateRequest {
  std::vector<Prompt> prompts;                         ///< prompts and their tokens
  std::shared_ptr<const text::Tokenizer> tokenizer{};  ///< null where the model has none, or none is needed
  AnswerForm form = AnswerForm::kText;
  bool is_conversation = false;  ///< prompts come from standard input, one after the answer to another
  std::string system{};          ///< system prompt of a conversation; "" for none
};

}  // namespace sluice
