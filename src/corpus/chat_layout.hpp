// Lays out conversations as text by a model's chat template.
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

/// Bytes [begin, end) of a text that the assistant wrote.
struct AnswerSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t message = -1;  ///< index of the message; -1: unknown
};

/// Text of a laid-out conversation, with the places of its answers.
struct LaidOut {
  std::string text;
  std::vector<AnswerSpan> answers;  ///< answers in the text's order
};

/// Chat template of a model.
struct ChatTemplate {
  std::string name;          ///< name of the template's file, for messages
  std::string text;          ///< template in Jinja; "": none
  std::string tools_name{};  ///< name of the file of `tools_text`, for messages
  std::string tools_text{};  ///< template for conversations with tools; "": `text` serves them too
  std::map<std::string, std::string> tokens;  ///< special tokens by their names: "bos_token", …
  double deadline_seconds = 60;               ///< seconds for laying out one conversation
};

/// Whether the places of answers in the text are searched.
enum class AnswerPlaces : std::uint8_t {
  kNone,
  kFound,     ///< all of them; one that cannot be told apart from the template's text is an error
  kIfCertain  ///< those that can be told apart from the template's text
};

/// Lays out one conversation after another. Not thread-safe.
class ChatLayout {
 public:
  virtual ~ChatLayout() = default;
  /// Lays out a conversation. Error(kBadData) if the template refuses it, in words that follow "FILE:LINE: ",
  /// with the line of the template.
  [[nodiscard]] virtual LaidOut lay_out(const Conversation& conversation, AnswerPlaces places) = 0;
  /// Lays out a conversation followed by the text that the template puts before an answer
  /// (add_generation_prompt).
  [[nodiscard]] virtual std::string lay_out_prompt(const Conversation& conversation) = 0;
  /// Text that the template would put between the conversation's last message and a user's next one; "" if it
  /// cannot be told apart from the messages. Errors as lay_out().
  [[nodiscard]] virtual std::string lay_out_turn(const Conversation& conversation) = 0;
};

/// Whether the model has a template for the conversation.
[[nodiscard]] bool has_template_for(const ChatTemplate& chat_template, const Conversation& conversation);

/// Makes a layout: ChatML in code if the template is a published ChatML; else Python's Jinja in a process of
/// its own, which starts with the first conversation. Error(kBadData) for an invalid template;
/// Error(kTooLittle) if there is no Python with Jinja.
[[nodiscard]] std::unique_ptr<ChatLayout> make_chat_layout(const ChatTemplate& chat_template);
/// Makes a layout that always runs Jinja.
[[nodiscard]] std::unique_ptr<ChatLayout> make_jinja_layout(const ChatTemplate& chat_template);

}  // namespace sluice::corpus
