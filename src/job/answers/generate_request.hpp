// What a command line asks of a model, beside the settings of [generate].
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
  kText,    ///< as they come
  kTokens,  ///< ids alone, a line for each answer
  kJson,    ///< an object for each answer, a line each
};

struct GenerateRequest {
  std::vector<Prompt> prompts;                         ///< with their tokens
  std::shared_ptr<const text::Tokenizer> tokenizer{};  ///< null where the model has none, or none is needed
  AnswerForm form = AnswerForm::kText;
  bool is_conversation = false;  ///< prompts come from standard input, one after the answer to another
  std::string system{};          ///< of a conversation: what comes before its first message; "" for nothing
};

}  // namespace sluice
