#include "data/answer_counts.hpp"

#include <fmt/format.h>

namespace sluice {

std::string endless_text(const AnswerCounts& answers) {
  if (answers.endless == 0) return "";
  return fmt::format(
      "{} of {} answers teach no end, so that the model does not learn to stop behind them: the chat template "
      "ends them with none of the tokens that eos_token_id in generation_config.json and config.json, and "
      "eos_token in tokenizer_config.json, name. Add the token with which the template ends an answer to "
      "eos_token_id in generation_config.json, or give a template that ends answers with one of these "
      "(chat_template.jinja, or sluice tokenize --template FILE)",
      answers.endless, answers.all);
}

}  // namespace sluice
