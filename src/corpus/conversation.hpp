// A line of a JSONL file: a text, or a conversation in one of the shapes that people keep them in.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// What is taken from a line.
struct LineOptions {
  std::string field;  ///< a text at this key; "": a conversation where there is one, else the key "text"
  bool keeps_tools = true;      ///< the functions that an assistant may call
  bool keeps_reasoning = true;  ///< what an assistant thought before it answered
};

struct Conversation {
  std::shared_ptr<const nlohmann::ordered_json>
      messages;  ///< objects with a role; keys in the order of the file, as templates print them
  std::shared_ptr<const nlohmann::ordered_json> tools;  ///< a list, or null
  std::vector<bool> is_trained;                         ///< of each message: no "train": false
};

struct Line {
  std::string text;
  std::optional<Conversation> conversation;  ///< then there is no text
};

/// Reads {"messages": [{"role", "content"}...]}, ShareGPT's {"conversations": [{"from", "value"}...]},
/// {"prompt", "completion"} (texts, or lists of messages) or a text at a key. Error(kBadData), in words that
/// follow "FILE:LINE: ", for anything else.
[[nodiscard]] Line read_line(std::string_view line, const LineOptions& options);

}  // namespace sluice::corpus
