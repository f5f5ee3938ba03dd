#include "conversation.hpp"

#include "chat_history.hpp"
#include "comm/run_together.hpp"
#include "process/console.hpp"
#include "process/input_lines.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice {
namespace {

using Json = nlohmann::json;

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
