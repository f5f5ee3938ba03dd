// Rows of JSON: a text, or a conversation in one of the forms that people keep them in. All that reads rows
// reads them here: texts to be learnt and prompts to be answered.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

class JsonRow;

/// What is taken from a row.
struct LineOptions {
  std::string field;  ///< a text at this key; "": a conversation where there is one, else the key "text"
  bool keeps_tools = true;      ///< the functions that an assistant may call
  bool keeps_reasoning = true;  ///< what an assistant thought before it answered
};

struct Conversation {
  std::shared_ptr<const nlohmann::ordered_json>
      messages;  ///< objects with a role; keys in the order of the file, as templates print them
  std::shared_ptr<const nlohmann::ordered_json> tools;  ///< a list, or null
  std::vector<bool> is_trained;  ///< of each message: it is not marked as not to be learnt
};

struct Line {
  std::string text;
  std::optional<Conversation> conversation;  ///< then there is no text
  std::vector<std::string> unused{};         ///< keys of the row that were not used
};

/// Reads what is to be learnt: {"messages": [{"role", "content"}...]} as OpenAI, TRL and torchtune have it,
/// ShareGPT's {"conversations": [{"from", "value"}...]}, {"prompt", "completion"} and {"prompt", "chosen"}
/// (texts, or lists of messages), Alpaca's {"instruction", "input", "output"} with LLaMA-Factory's "history",
/// {"input", "output"}, each with "system" and "tools", or a text at a key. Error(kBadData), in words that
/// follow "FILE:LINE: ", for anything else.
[[nodiscard]] Line read_line(std::string_view line, const LineOptions& options);

/// The conversation of a row that is to be answered: messages in the same forms, or a "prompt" or
/// "instruction" with or without a system and tools. Nothing if it has none, or a "prompt" alone, which is a
/// text. Errors as read_line().
[[nodiscard]] std::optional<Conversation> read_asked(JsonRow& row);

/// A conversation with nothing but these messages, a JSON list.
[[nodiscard]] Conversation conversation_with(const nlohmann::ordered_json& messages);

}  // namespace sluice::corpus
