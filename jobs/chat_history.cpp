#include "chat_history.hpp"

#include "process/console.hpp"

namespace sluice {

ChatHistory::ChatHistory(const JobContext& context, std::int64_t positions)
    : request_(*context.request),
      encoder_(*request_.tokenizer, context.config().model.path),
      positions_(positions) {
  begin();
}

std::vector<std::int64_t> ChatHistory::say(const std::string& text) {
  for (const bool is_new : {false, true}) {
    if (is_new) begin();
    messages_.push_back({{"role", "user"}, {"content", text}});
    std::vector<std::int64_t> tokens = encoder_.encode(corpus::conversation_with(messages_));
    if (std::ssize(tokens) < positions_) return tokens;
    console::line("{} tokens are more than the {} positions: {}", tokens.size(), positions_,
                  is_new ? "not answered" : "the conversation begins anew");
  }
  begin();
  return {};
}

void ChatHistory::begin() {
  messages_ = nlohmann::ordered_json::array();
  if (!request_.system.empty()) messages_.push_back({{"role", "system"}, {"content", request_.system}});
}

}  // namespace sluice
