// What was said so far in a conversation in the terminal.
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
  /// Begins with the system message of the context's request, if there is one. The conversation and the next
  /// answer have `positions` tokens at most. The context must outlive this.
  ChatHistory(const JobContext& context, std::int64_t positions);

  /// The tokens of the conversation when the user has said `text`. What has grown too long is forgotten;
  /// nothing if `text` alone is too long.
  [[nodiscard]] std::vector<std::int64_t> say(const std::string& text);
  /// Keeps what the model has answered.
  void answer(const std::string& text) { messages_.push_back({{"role", "assistant"}, {"content", text}}); }

 private:
  void begin();

  const GenerateRequest& request_;
  ChatEncoder encoder_;
  std::int64_t positions_;
  nlohmann::ordered_json messages_;
};

}  // namespace sluice
