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
bool has_list(const JsonRow& row, const char* key) {
  const Json& value = row.at(key);
  return value.is_array() || (value.is_string() && messages_in_text(value.get<std::string>(), key));
}

/// Answer at the first of these keys that the row has.
Json answer_of(JsonRow& row, std::initializer_list<const char*> keys) {
  const auto* const key = std::ranges::find_if(keys, [&](const char* name) { return row.has(name); });
  return messages_of(row.take(*key), *key, "assistant");
}

/// Conversation of a list of messages; if it ends with the user, the better of two answers is added.
Json listed_messages(JsonRow& row, const char* key) {
  Json messages = messages_of(row.take(key), key, "user");
  if (row.has("chosen") && !is_of(messages.back(), {"assistant"}))
    append_messages(messages, answer_of(row, {"chosen"}));
  return messages;
}

/// Conversation of a prompt and its answer; texts are what a user asks and an assistant answers.
Json prompt_and_answer(JsonRow& row) {
  if (!row.has("completion") && has_list(row, "chosen")) {
    // Some tables have the whole conversation there, which repeats the prompt.
    Json chosen = messages_of(row.take("chosen"), "chosen", "assistant");
    if (!is_of(chosen.front(), {"assistant", "tool"})) return chosen;
  }
  Json messages = messages_of(row.take("prompt"), "prompt", "user");
  append_messages(messages, answer_of(row, {"completion", "chosen"}));
  return messages;
}

std::optional<Json> learnt_messages(JsonRow& row) {
  for (const char* key : {"messages", "conversations"})
    if (row.has(key)) return listed_messages(row, key);
  if (row.has("prompt") && (row.has("completion") || row.has("chosen"))) return prompt_and_answer(row);
  if (row.has_text("instruction") && (row.has("output") || row.has("chosen"))) {
    Json messages = instruction_of(row);
    append_messages(messages, answer_of(row, {"output", "chosen"}));
    return messages;
  }
  if (has_list(row, "chosen")) return messages_of(row.take("chosen"), "chosen", "assistant");
  if (!row.has_text("input") || !row.has_text("output")) return std::nullopt;
  Json messages = messages_of(row.take("input"), "input", "user");
  append_messages(messages, answer_of(row, {"output"}));
  return messages;
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

}  // namespace

RowContent read_row(std::string_view line, const RowOptions& options) {
  JsonRow row(line);
  RowContent made;
  std::optional<Json> messages;
  if (options.field.empty()) messages = learnt_messages(row);
  if (messages)
    made.conversation = conversation_of(std::move(*messages), row, options);
  else
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
