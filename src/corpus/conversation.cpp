#include "corpus/conversation.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/json_row.hpp"
#include "corpus/message.hpp"

#include <algorithm>
#include <utility>

namespace sluice::corpus {
namespace {

using Json = nlohmann::ordered_json;  // templates print objects in the order of their keys

bool is_of(const Json& message, std::initializer_list<std::string_view> roles) {
  const auto role = message.is_object() ? message.find("role") : message.end();
  return message.is_object() && role != message.end() && role->is_string() &&
         std::ranges::find(roles, std::string_view(role->get_ref<const std::string&>())) != roles.end();
}

void append_messages(Json& messages, const Json& more) {
  for (const Json& message : more) messages.push_back(message);
}

/// Earlier turns in LLaMA-Factory's form: pairs of a question and its answer.
Json history_of(JsonRow& row) {
  Json messages = Json::array();
  Json rounds = row.take("history");
  open_text(rounds);
  const auto is_pair = [](const Json& round) {
    return round.is_array() && round.size() == 2 && round[0].is_string() && round[1].is_string();
  };
  if (!rounds.is_null() && (!rounds.is_array() || !std::all_of(rounds.begin(), rounds.end(), is_pair)))
    fail({ExitCode::kBadData, "corpus.row"}, "'history' is {}, expected a list of pairs of texts",
         printable(rounds.dump(), 60));
  for (const Json& round : rounds) {
    messages.push_back({{"role", "user"}, {"content", round[0]}});
    messages.push_back({{"role", "assistant"}, {"content", round[1]}});
  }
  return messages;
}

/// Question in Alpaca's form: an instruction and optionally its input, as one message of a user.
Json instruction_of(JsonRow& row) {
  Json messages = history_of(row);
  std::string asked = row.text("instruction");
  if (const std::string input = row.has("input") ? row.text("input") : ""; !input.empty())
    asked += (asked.empty() ? "" : "\n") + input;
  messages.push_back({{"role", "user"}, {"content", asked}});
  return messages;
}

/// Whether a key holds a list of messages, itself or as a text.
bool has_list(const JsonRow& row, const std::string& key) {
  const Json& value = row.at(key);
  return value.is_array() || (value.is_string() && messages_in_text(value.get<std::string>(), key));
}

/// Messages of a row. The last `answers` of them were given as its answer; 0: the row does not tell these apart.
struct RowMessages {
  Json messages;
  std::size_t answers = 0;
};

/// Adds the answer at a key.
RowMessages with_answer(Json messages, JsonRow& row, const std::string& key) {
  const Json answer = messages_of(row.take(key), key, "assistant");
  append_messages(messages, answer);
  return {std::move(messages), answer.size()};
}

/// Conversation of a prompt and the answer at a key; texts are what a user asks and an assistant answers.
RowMessages prompt_and_answer(JsonRow& row, const std::string& key) {
  if (key != "completion" && has_list(row, key)) {
    // Some tables have the whole conversation there, which repeats the prompt.
    Json whole = messages_of(row.take(key), key, "assistant");
    if (!is_of(whole.front(), {"assistant", "tool"})) return {std::move(whole)};
  }
  return with_answer(messages_of(row.take("prompt"), "prompt", "user"), row, key);
}

/// Messages of a row whose answer is that at the key `answer`, "chosen" or "rejected", if it has several.
/// `is_chosen_from`: the row has several, and no other text may stand for its answer.
std::optional<RowMessages> learnt_messages(JsonRow& row, const std::string& answer, bool is_chosen_from) {
  const auto key_of = [&](const char* only) { return !is_chosen_from && row.has(only) ? only : answer; };
  for (const char* key : {"messages", "conversations"}) {
    if (!row.has(key)) continue;
    Json messages = messages_of(row.at(key), key, "user");
    const bool is_answered = is_of(messages.back(), {"assistant"});
    if (is_answered && is_chosen_from) continue;  // some tables repeat one of the answers there
    static_cast<void>(row.take(key));
    if (is_answered || !row.has(answer)) return RowMessages{std::move(messages)};
    return with_answer(std::move(messages), row, answer);
  }
  if (row.has("prompt") && row.has(key_of("completion"))) return prompt_and_answer(row, key_of("completion"));
  if (row.has_text("instruction") && row.has(key_of("output")))
    return with_answer(instruction_of(row), row, key_of("output"));
  if (has_list(row, answer)) return RowMessages{messages_of(row.take(answer), answer, "assistant")};
  if (is_chosen_from || !row.has_text("input") || !row.has_text("output")) return std::nullopt;
  return with_answer(messages_of(row.take("input"), "input", "user"), row, "output");
}

std::optional<Json> asked_messages(JsonRow& row) {
  for (const char* key : {"messages", "conversations"})
    if (row.has(key)) return messages_of(row.take(key), key, "user");
  const bool is_text_alone =
      row.has_text("prompt") && !has_list(row, "prompt") && !row.has("system") && !row.has("tools");
  if (row.has("prompt"))
    return is_text_alone ? std::nullopt : std::optional(messages_of(row.take("prompt"), "prompt", "user"));
  if (row.has_text("instruction")) return instruction_of(row);
  return std::nullopt;
}

/// Adds the system message of LLaMA-Factory's and ShareGPT's rows; messages that begin with their own keep
/// it.
void put_system(JsonRow& row, Json& messages) {
  if (!row.has("system") || is_of(messages.front(), {"system", "developer"})) return;
  const std::string system = row.text("system");
  if (system.empty()) return;
  Json longer = Json::array({{{"role", "system"}, {"content", system}}});
  append_messages(longer, messages);
  messages = std::move(longer);
}

/// Functions in the form that transformers gives to templates: each wrapped in an object of type "function".
Json wrapped_functions(const Json& functions) {
  Json tools = Json::array();
  for (const Json& function : functions) {
    const bool is_bare = function.is_object() && function.contains("name") && !function.contains("function");
    tools.push_back(is_bare ? Json{{"type", "function"}, {"function", function}} : function);
  }
  return tools;
}

Json tools_of(JsonRow& row) {
  const char* const key = row.has("tools") ? "tools" : "functions";
  Json tools = row.take(key);
  // Some tables keep the list as a text, because its schemas differ from line to line.
  open_text(tools);
  if (tools.is_null() || tools == "") return nullptr;
  if (!tools.is_array()) fail({ExitCode::kBadData, "corpus.row"}, "'{}' is not a list of tools", key);
  for (Json& tool : tools) open_text(tool);
  if (tools.empty()) return nullptr;
  return row.has("messages") && row.has("tools") ? tools : wrapped_functions(tools);
}

Conversation conversation_of(Json messages, JsonRow& row, const RowOptions& options) {
  put_system(row, messages);
  Json tools = tools_of(row);
  Conversation made;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    made.is_trained.push_back(tidy_message(message, i));
    if (!options.keeps_tools) message.erase("tool_calls");
    if (!options.keeps_tools && !message.contains("content")) message["content"] = "";
    for (const std::string_view key : kReasoningKeys)
      if (!options.keeps_reasoning) message.erase(std::string(key));
  }
  made.messages = std::make_shared<const Json>(std::move(messages));
  made.tools = std::make_shared<const Json>(options.keeps_tools ? std::move(tools) : Json());
  return made;
}

void require_answer(const JsonRow& row, const std::string& key) {
  if (!row.has(key))
    fail(ExitCode::kBadData, "has no '{}', expected an answer there, a text or messages", key);
}

/// Messages of a row of which one answer is learnt.
std::optional<RowMessages> messages_with_one(JsonRow& row, Answers answers) {
  const std::string key = answers == Answers::kRejected ? "rejected" : "chosen";
  const bool is_chosen_from = answers != Answers::kAuto && (row.has("chosen") || row.has("rejected"));
  if (is_chosen_from) require_answer(row, key);
  return learnt_messages(row, key, is_chosen_from);
}

/// Number of messages with which both conversations begin; less than either has, so that each has an answer.
std::size_t common_messages(const Conversation& a, const Conversation& b) {
  const auto most = static_cast<std::ptrdiff_t>(std::min(a.messages->size(), b.messages->size()) - 1);
  const auto ends = std::mismatch(a.messages->begin(), a.messages->begin() + most, b.messages->begin());
  return static_cast<std::size_t>(ends.first - a.messages->begin());
}

/// Takes both answers of a row, each as a conversation of which the messages before its answer are not trained.
void read_pair(JsonRow& row, const RowOptions& options, RowContent& made) {
  for (const char* key : {"chosen", "rejected"}) require_answer(row, key);
  std::optional<RowMessages> chosen = learnt_messages(row, "chosen", /*is_chosen_from=*/true);
  std::optional<RowMessages> rejected = learnt_messages(row, "rejected", /*is_chosen_from=*/true);
  if (!chosen || !rejected)
    fail(ExitCode::kBadData,
         "has answers and no prompt, expected 'prompt', 'instruction', 'messages' or 'conversations' beside "
         "them, or whole conversations, as lists of messages, in both");
  made.conversation = conversation_of(std::move(chosen->messages), row, options);
  made.rejected = conversation_of(std::move(rejected->messages), row, options);
  const std::size_t common = common_messages(*made.conversation, *made.rejected);
  const auto leave_prompt = [&](Conversation& conversation, std::size_t answers) {
    const std::size_t prompt = answers > 0 ? conversation.messages->size() - answers : common;
    std::fill_n(conversation.is_trained.begin(), prompt, false);
  };
  leave_prompt(*made.conversation, chosen->answers);
  leave_prompt(*made.rejected, rejected->answers);
}

}  // namespace

RowContent read_row(std::string_view line, const RowOptions& options) {
  JsonRow row(line);
  RowContent made;
  std::optional<RowMessages> read;
  if (options.answers == Answers::kPair)
    read_pair(row, options, made);
  else if (options.field.empty())
    read = messages_with_one(row, options.answers);
  if (read)
    made.conversation = conversation_of(std::move(read->messages), row, options);
  else if (!made.conversation)
    made.text = row.text(options.field.empty() ? "text" : options.field);
  made.unused = row.unused();
  return made;
}

std::optional<Conversation> read_asked(JsonRow& row) {
  std::optional<Json> messages = asked_messages(row);
  if (!messages) return std::nullopt;
  return conversation_of(std::move(*messages), row, {});
}

Conversation conversation_with(const Json& messages) {
  return {.messages = std::make_shared<const Json>(messages),
          .tools = std::make_shared<const Json>(),
          .is_trained = std::vector<bool>(messages.size(), true)};
}

}  // namespace sluice::corpus
