#include "conversation.hpp"

#include "comm/run_together.hpp"
#include "job/answers/model_text.hpp"
#include "job/console.hpp"

#include <nlohmann/json.hpp>

#include <poll.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

/// Standard input, line by line, without waiting for long.
class Lines {
 public:
  enum class Found : std::uint8_t { kNothing, kLine, kEnd };

  /// The next line, or what else a wait of a second at most has brought.
  [[nodiscard]] Found next(std::string& line) {
    if (take(line)) return Found::kLine;
    constexpr int kWaitMilliseconds = 1000;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, kWaitMilliseconds) <= 0) return Found::kNothing;
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count > 0) {
      text_.append(bytes.data(), static_cast<std::size_t>(count));
      return take(line) ? Found::kLine : Found::kNothing;
    }
    line = std::exchange(text_, "");
    return line.empty() ? Found::kEnd : Found::kLine;
  }

 private:
  bool take(std::string& line) {
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos) return false;
    line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return true;
  }

  std::string text_;
};

/// Conversation so far, on rank 0.
class Conversation {
 public:
  Conversation(const JobContext& context, std::int64_t positions)
      : request_(*context.request),
        encoder_(*request_.tokenizer, context.config().model.path),
        positions_(positions) {
    begin();
  }

  /// The tokens of the conversation when the user has said `text`. What has grown too long is forgotten;
  /// nothing if `text` alone is too long.
  [[nodiscard]] std::vector<std::int64_t> say(const std::string& text) {
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
  void answer(const std::string& text) { messages_.push_back({{"role", "assistant"}, {"content", text}}); }

 private:
  void begin() {
    messages_ = Json::array();
    if (!request_.system.empty()) messages_.push_back({{"role", "system"}, {"content", request_.system}});
  }

  const GenerateRequest& request_;
  ChatEncoder encoder_;
  std::int64_t positions_;
  Json messages_;
};

/// Waits for what the user says. Each of its waits is short, so that ranks without a terminal meet it within
/// their deadline. Its tokens; nothing when there will be no more.
std::optional<std::vector<std::int64_t>> wait_for_user(JobContext& context, Lines& lines,
                                                       std::optional<Conversation>& conversation) {
  for (;;) {
    context.comm.set_deadline("step", context.config().deadline.step_seconds);
    const std::string text = share_from_root(context.comm, [&]() -> std::string {
      std::string line;
      const Lines::Found found = lines.next(line);
      if (found == Lines::Found::kEnd) return "end";
      return found == Lines::Found::kNothing || line.empty() ? "" : Json(conversation->say(line)).dump();
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
  options.continues_sequences = true;  // each turn's prompt begins with all that was said
  const GenerateRequest& request = *context.request;
  std::optional<Conversation> conversation;
  run_on_root(context.comm, [&] { conversation.emplace(context, forward.positions()); });
  Lines lines;
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
