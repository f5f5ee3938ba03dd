// The tokenizer of a model, and prompts of text by it.
#pragma once

#include "job/prompts.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The tokenizer beside a model's weights, or of a saved step beside those that its training began with; null if there is
/// none. Errors as text::Tokenizer::load().
[[nodiscard]] std::shared_ptr<const text::Tokenizer> find_tokenizer(const std::filesystem::path& model);

/// Gives tokens to those that are texts. Error(kBadData) if there are any and `tokenizer`, that of `model`, is null.
void encode_prompts(std::vector<Prompt>& prompts, const text::Tokenizer* tokenizer,
                    const std::filesystem::path& model);

/// The text of an answer as its tokens come: never half a character, and nothing from the first stop on.
class AnswerText {
 public:
  /// `tokenizer` must outlive this.
  AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
      : decoder_(tokenizer), stops_(std::move(stops)) {}

  /// What is certain after one more token: what may yet become a stop is held back.
  [[nodiscard]] std::string add(std::int64_t token);
  /// What is left at the end.
  [[nodiscard]] std::string finish();
  [[nodiscard]] bool has_stopped() const { return has_stopped_; }

 private:
  [[nodiscard]] std::string certain(const std::string& more);

  text::StreamDecoder decoder_;
  std::vector<std::string> stops_;
  std::string waiting_;
  bool has_stopped_ = false;
};

/// The whole text of an answer.
[[nodiscard]] std::string answer_text(const text::Tokenizer& tokenizer, const std::vector<std::string>& stops,
                                      std::span<const std::int64_t> tokens);

}  // namespace sluice
