// Conversations as text, laid out by a model's chat template.
#pragma once

#include "corpus/conversation.hpp"

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// Bytes [begin, end) that an assistant is answerable for.
struct AnswerSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t message = -1;  ///< index of the message; -1: unknown
};

/// Text of a conversation, with the places of its answers.
struct LaidOut {
  std::string text;
  std::vector<AnswerSpan> answers;  ///< answers in the text's order
};

/// Chat template of a model.
struct ChatTemplate {
  std::string name;          ///< the file it is from, in messages
  std::string text;          ///< chat template in Jinja; "": there is none
  std::string tools_name{};  ///< the file of the next one
  std::string tools_text{};  ///< template of conversations with tools; "": `text` serves these, too
  std::map<std::string, std::string> tokens;  ///< special tokens by their names: "bos_token", …
  double deadline_seconds = 60;               ///< limit for laying out one conversation
};

/// Whether the places of answers in a text that is laid out are looked for.
enum class AnswerPlaces : std::uint8_t { kNone, kFound };

/// Lays out one conversation after another. Not for several threads at once.
class ChatLayout {
 public:
  virtual ~ChatLayout() = default;
  /// Error(kBadData) if the template refuses the conversation, in words that follow "FILE:LINE: ", with the
  /// line of the template.
  [[nodiscard]] virtual LaidOut lay_out(const Conversation& conversation, AnswerPlaces places) = 0;
  /// Lays out a conversation followed by what the template puts before an answer (add_generation_prompt).
  [[nodiscard]] virtual std::string lay_out_prompt(const Conversation& conversation) = 0;
};

/// Whether there is a template for the conversation.
[[nodiscard]] bool has_template_for(const ChatTemplate& chat_template, const Conversation& conversation);

/// ChatML, if the template is the one that this is published as; else Python's Jinja in a process of its own,
/// which is started with the first conversation. Error(kBadData) for a template that is none;
/// Error(kTooLittle) if there is no Python with Jinja.
[[nodiscard]] std::unique_ptr<ChatLayout> make_chat_layout(const ChatTemplate& chat_template);
/// A layout that always runs Jinja.
[[nodiscard]] std::unique_ptr<ChatLayout> make_jinja_layout(const ChatTemplate& chat_template);

}  // namespace sluice::corpus
