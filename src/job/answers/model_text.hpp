// The tokenizer of a model, and prompts of text by it.
#pragma once

#include "corpus/chat_layout.hpp"
#include "corpus/template_keys.hpp"
#include "job/answers/prompts.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The tokenizer beside a model's weights, or of a saved step beside those that its training began with; null
/// if there is none. Errors as text::Tokenizer::load().
[[nodiscard]] std::shared_ptr<const text::Tokenizer> find_tokenizer(const std::filesystem::path& model);

/// Whether prompts are what the model's text goes on from, or what a user says in a conversation with it.
enum class PromptKind : bool { kPlain, kChat };

/// Gives tokens to those that have none yet, in a chat laid out by the model's chat template. Error(kBadData)
/// if `tokenizer`, that of `model`, is null and one is needed, for a chat if the model has no template, or if
/// that refuses the conversation.
void encode_prompts(std::vector<Prompt>& prompts, const text::Tokenizer* tokenizer,
                    const std::filesystem::path& model, PromptKind kind = PromptKind::kPlain);

/// Turns conversations into tokens by a model's chat template.
class ChatEncoder {
 public:
  /// `tokenizer` is the one of `model`, and must outlive this. Error(kBadData) if the model has no template.
  ChatEncoder(const text::Tokenizer& tokenizer, const std::filesystem::path& model);
  /// Tokens of a conversation and of what the template puts before the next answer. Error(kBadData) if the
  /// model's templates are for conversations with tools alone, and this one has none.
  [[nodiscard]] std::vector<std::int64_t> encode(const corpus::Conversation& conversation);
  /// Keys of the conversation that the template does not look at.
  [[nodiscard]] std::vector<std::string> unread(const corpus::Conversation& conversation) {
    return template_keys_.unread(conversation);
  }

 private:
  const text::Tokenizer& tokenizer_;
  corpus::ChatTemplate template_;
  std::unique_ptr<corpus::ChatLayout> layout_;
  corpus::TemplateKeys template_keys_;
};

/// The text of an answer as its tokens come: never half a character, and nothing from the first stop on.
class AnswerText {
 public:
  /// `tokenizer` must outlive this.
  AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
      : decoder_(tokenizer), stops_(std::move(stops)) {}

  /// Text that is certain after one more token: what may yet become a stop is held back.
  [[nodiscard]] std::string add(std::int64_t token);
  /// The rest of the text at the end.
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
