// Tokenizer of a model, and prompts of text encoded by it.
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

/// Tokenizer beside a model's weights, or for a checkpoint beside the weights with which its training began;
/// null if there is none. Errors as text::Tokenizer::load().
[[nodiscard]] std::shared_ptr<const text::Tokenizer> find_tokenizer(const std::filesystem::path& model);

/// Whether a prompt is text that the model continues, or a user's message in a conversation.
enum class PromptKind : bool { kPlain, kChat };

/// Encodes prompts that have no tokens yet, for kChat by the model's chat template. Error(kBadData) if a
/// tokenizer is needed and `tokenizer`, that of `model`, is null, or for kChat if the model has no template,
/// or the template refuses the conversation.
void encode_prompts(std::vector<Prompt>& prompts, const text::Tokenizer* tokenizer,
                    const std::filesystem::path& model, PromptKind kind = PromptKind::kPlain);

/// Encodes conversations by a model's chat template.
class ChatEncoder {
 public:
  /// `tokenizer` is that of `model`, and must outlive this object. Error(kBadData) if the model has no
  /// template.
  ChatEncoder(const text::Tokenizer& tokenizer, const std::filesystem::path& model);
  /// Tokens of a conversation, with those that the template puts before the next answer. Error(kBadData) if
  /// the model's templates all need tools and the conversation has none.
  [[nodiscard]] std::vector<std::int64_t> encode(const corpus::Conversation& conversation);
  /// Keys of the conversation that the template does not use.
  [[nodiscard]] std::vector<std::string> unread(const corpus::Conversation& conversation) {
    return template_keys_.unread(conversation);
  }

 private:
  const text::Tokenizer& tokenizer_;
  corpus::ChatTemplate template_;
  std::unique_ptr<corpus::ChatLayout> layout_;
  corpus::TemplateKeys template_keys_;
};

/// Text of an answer as its tokens arrive: never half a character, and nothing from the first stop on.
class AnswerText {
 public:
  /// `tokenizer` must outlive this object.
  AnswerText(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
      : decoder_(tokenizer), stops_(std::move(stops)) {}

  /// Adds a token; returns the text that has become certain: text that may still become a stop is held back.
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
