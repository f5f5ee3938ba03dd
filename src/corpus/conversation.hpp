// Reads rows of JSON: a text, or a conversation in one of its common forms. Every reader of rows uses this:
// for texts to be learnt, and for prompts to be answered.
#pragma once

#include "base/answers.hpp"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

class JsonRow;

/// Options of reading a row.
struct RowOptions {
  std::string field{};          ///< key of the text; "": a conversation if there is one, else the key "text"
  bool keeps_tools = true;      ///< whether the list of functions that an assistant may call is kept
  bool keeps_reasoning = true;  ///< whether an assistant's reasoning before its answer is kept
  Answers answers = Answers::kAuto;
};

/// A conversation in the form that chat templates take.
struct Conversation {
  std::shared_ptr<const nlohmann::ordered_json>
      messages;  ///< list of objects with a role; keys in the order of the file, as templates print them
  std::shared_ptr<const nlohmann::ordered_json> tools;  ///< list of tools; null if there is none
  /// Whether each message is trained on; false for those marked as not to be learnt.
  std::vector<bool> is_trained;
};

/// Content of a row: a text or a conversation.
struct RowContent {
  std::string text;
  std::optional<Conversation> conversation;  ///< conversation in place of a text
  /// With Answers::kPair the conversation with the rejected answer, beside that with the chosen one. In both
  /// the messages of the prompt are not trained on.
  std::optional<Conversation> rejected{};
  std::vector<std::string> unused{};  ///< keys of the row that were not used
};

/// Reads what is to be learnt: {"messages": [{"role", "content"}...]} as OpenAI, TRL and torchtune have it,
/// ShareGPT's {"conversations": [{"from", "value"}...]}, {"prompt", "completion"} and {"prompt", "chosen"}
/// (texts, or lists of messages), Alpaca's {"instruction", "input", "output"} with LLaMA-Factory's "history",
/// {"input", "output"}, each with "system" and "tools", or a text at a key. Of a pair the prompt is what stands
/// before its answers; where "chosen" and "rejected" hold whole conversations, it is the messages with which
/// both begin. Error(kBadData), in words that follow "FILE:LINE: ", for anything else, and for a row without
/// the answer that the options name.
[[nodiscard]] RowContent read_row(std::string_view line, const RowOptions& options);

/// Reads the conversation of a row that is to be answered: messages in the same forms, or a "prompt" or
/// "instruction" with or without a system and tools. Nothing if the row has none, or only a "prompt" text.
/// Errors as read_row().
[[nodiscard]] std::optional<Conversation> read_asked(JsonRow& row);

/// A conversation of the given messages, a JSON list, and nothing else.
[[nodiscard]] Conversation conversation_with(const nlohmann::ordered_json& messages);

}  // namespace sluice::corpus
