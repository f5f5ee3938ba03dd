#include "conversation.hpp"

#include "comm/run_together.hpp"
#include "job/answers/model_text.hpp"
#include "job/job.hpp"
#include "process/console.hpp"
#include "process/input_lines.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Json = nlohmann::json;

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

/// Waits for the user's next message, with short waits, so that ranks without a terminal meet them within
/// their deadline. Returns the tokens of the conversation; nothing at the end of the input.
std::optional<std::vector<std::int64_t>> wait_for_user(JobContext& context, InputLines& lines,
                                                       std::optional<ChatHistory>& conversation) {
  for (;;) {
    context.comm.set_deadline("step", context.config().deadline.step_seconds);
    const std::string text = share_from_root(context.comm, [&]() -> std::string {
      std::string line;
      const InputLines::Found found = lines.next(line);
      if (found == InputLines::Found::kEnd) return "end";
      return found == InputLines::Found::kNothing || line.empty() ? "" : Json(conversation->say(line)).dump();
    });
    if (text == "end") return std::nullopt;
    if (!text.empty() && text != "[]") return Json::parse(text).get<std::vector<std::int64_t>>();
  }
}

void show_that_it_is_the_users_turn(const JobContext& context) {
  if (context.is_root() && isatty(STDIN_FILENO) == 1) console::result("> ");
}

}  // namespace

void converse(JobContext& context, CachedForward& forward, GenerationOptions options) {
  options.continues_sequences = true;  // each turn's prompt begins with all earlier messages
  const GenerateRequest& request = *context.request;
  std::optional<ChatHistory> conversation;
  run_on_root(context.comm, [&] { conversation.emplace(context, forward.positions()); });
  InputLines lines;
  for (std::int64_t turn = 0;; ++turn) {
    show_that_it_is_the_users_turn(context);
    const auto tokens = wait_for_user(context, lines, conversation);
    if (!tokens) return;
    const std::vector<GenerationRequest> requests{{turn, *tokens}};
    AnswerText text(*request.tokenizer, context.config().generate.stop);
    std::string said;
    const auto show = [&](const std::string& more) {
      said += more;
      console::result(more);
    };
    const auto take = [&](std::size_t, std::int64_t token) {
      show(text.add(token));
      return text.has_stopped();
    };
    generate(forward, requests, options, take, [&](const Generation&) {
      show(text.finish());
      console::result("\n");
      conversation->answer(said);
    });
  }
}

}  // namespace sluice
