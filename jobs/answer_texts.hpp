// Texts of answers: where they end, what the terminal shows of them, and their JSON.
#pragma once

#include "generate/generator.hpp"
#include "job/answers/model_text.hpp"
#include "job/answers/prompts.hpp"
#include "job/job.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

class AnswerTexts {
 public:
  /// `tokenizer` may be null if generate.stop is empty. `prompts` are used on rank 0 alone. The context and
  /// `prompts` must outlive this object.
  AnswerTexts(const JobContext& context, std::shared_ptr<const text::Tokenizer> tokenizer,
              const std::vector<Prompt>& prompts);

  /// Adds a token, on the rank of the request. Returns whether the answer ends here, at generate.stop.
  [[nodiscard]] bool take_token(std::size_t request, std::int64_t token);
  /// JSON of an answer: "id", "prompt_tokens", "tokens", "text" if there is a tokenizer, "ending".
  [[nodiscard]] nlohmann::json json_of(std::size_t prompt, const Generation& answer) const;
  /// Prints a command's answers in the order of their prompts, on rank 0: an answer is printed now, or after
  /// those of earlier prompts.
  void print_in_order(std::size_t prompt, const Generation& answer);

 private:
  [[nodiscard]] std::string text_of(const Generation& answer) const;
  [[nodiscard]] bool streams() const;
  void print(std::size_t prompt, const Generation& answer);

  const JobContext& context_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::vector<Prompt>& prompts_;
  std::vector<std::string> stops_;
  /// Texts of this rank's requests in progress, if stops or streaming need them.
  std::map<std::size_t, AnswerText> texts_;
  /// Answers that wait until those of earlier prompts are printed.
  std::map<std::size_t, Generation> waiting_;
  std::size_t next_ = 0;  ///< index of the next answer to print
};

}  // namespace sluice
