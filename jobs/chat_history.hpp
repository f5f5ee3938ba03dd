// History of a conversation in the terminal.
#pragma once

#include "job/answers/model_text.hpp"
#include "job/job.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Messages of the system, the user and the model, on rank 0.
class ChatHistory {
 public:
  /// Begins with the system message of the context's request, if it has one. The conversation with the next
  /// answer has at most `positions` tokens. The context must outlive this object.
  ChatHistory(const JobContext& context, std::int64_t positions);

  /// Adds the user's message `text`; returns the tokens of the conversation. Old messages are dropped if it
  /// has become too long; nothing if `text` alone is too long.
  [[nodiscard]] std::vector<std::int64_t> say(const std::string& text);
  /// Adds the model's answer.
  void answer(const std::string& text) { messages_.push_back({{"role", "assistant"}, {"content", text}}); }

 private:
  void begin();

  const GenerateRequest& request_;
  ChatEncoder encoder_;
  std::int64_t positions_;
  nlohmann::ordered_json messages_;
};

}  // namespace sluice
