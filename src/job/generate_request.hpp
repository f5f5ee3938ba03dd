// What a command line asks of a model, beside the settings of [generate].
#pragma once

#include "job/prompts.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// How answers are printed.
enum class AnswerForm : std::uint8_t {
  kText,    ///< as they come
  kTokens,  ///< ids alone, a line for each answer
  kJson,    ///< an object for each answer, a line each
};

struct GenerateRequest {
  std::vector<Prompt> prompts;
  AnswerForm form = AnswerForm::kText;
};

}  // namespace sluice
