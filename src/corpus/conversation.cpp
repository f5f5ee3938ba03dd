#include "corpus/conversation.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_object.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::corpus {
namespace {

using Json = nlohmann::ordered_json;  // templates print objects in the order of their keys

constexpr std::array<std::string_view, 3> kReasoning = {"reasoning_content", "thinking", "reasoning"};
/// Names of who speaks in ShareGPT's form, and the roles of chat templates.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kSpeakers = {{
    {"human", "user"},
    {"user", "user"},
    {"gpt", "assistant"},
    {"chatgpt", "assistant"},
    {"assistant", "assistant"},
    {"system", "system"},
    {"tool", "tool"},
    {"observation", "tool"},
    {"function_response", "tool"},
}};
constexpr std::array<std::string_view, 6> kRoles = {"system", "user",     "assistant",
                                                    "tool",   "function", "developer"};

std::string text_at(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) {
    std::vector<std::string> keys;
    for (const auto& [name, value] : object.items()) keys.push_back(name);
    fail(ExitCode::kBadData, "has no key '{}'; it has: {}", key, printable(join_some(keys)));
  }
  if (!found->is_string())
    fail(ExitCode::kBadData, "'{}' is a JSON {}, expected a text", key, found->type_name());
  return found->get<std::string>();
}

Json message_of_speaker(const Json& turn) {
  const std::string speaker = text_at(turn, "from");
  const auto found =
      std::ranges::find(kSpeakers, speaker, &std::pair<std::string_view, std::string_view>::first);
  if (found == kSpeakers.end())
    fail(ExitCode::kBadData, "'from' is '{}', expected human, gpt, system or tool", printable(speaker));
  Json message = {{"role", found->second}, {"content", text_at(turn, "value")}};
  for (const auto& [key, value] : turn.items())
    if (key != "from" && key != "value") message[key] = value;
  return message;
}

void check_message(const Json& message, std::size_t index) {
  if (!message.is_object())
    fail(ExitCode::kBadData, "message {} is a JSON {}, expected an object", index + 1, message.type_name());
  const std::string role = text_at(message, "role");
  if (std::ranges::find(kRoles, role) == kRoles.end())
    fail(ExitCode::kBadData, "message {} has the role '{}', expected system, user, assistant or tool",
         index + 1, printable(role));
  const bool says_something = message.contains("content") || message.contains("tool_calls");
  if (!says_something)
    fail(ExitCode::kBadData, "message {} has neither 'content' nor 'tool_calls'", index + 1);
}

/// A list of messages in either spelling.
Json messages_of(const Json& list, std::string_view key) {
  if (!list.is_array() || list.empty())
    fail(ExitCode::kBadData, "'{}' is {}, expected a list of messages", key,
         list.is_array() ? "an empty list" : std::string("a JSON ") + list.type_name());
  Json messages = Json::array();
  for (const Json& turn : list)
    messages.push_back(turn.is_object() && turn.contains("from") ? message_of_speaker(turn) : turn);
  return messages;
}

/// Texts are what a user asks and an assistant answers.
Json prompt_and_completion(const Json& document) {
  const auto side = [&](const char* key, const char* role) {
    const Json& value = document[key];
    return value.is_string() ? Json::array({{{"role", role}, {"content", value}}}) : messages_of(value, key);
  };
  Json messages = side("prompt", "user");
  for (Json& message : side("completion", "assistant")) messages.push_back(std::move(message));
  return messages;
}

std::optional<Json> messages_in(const Json& document) {
  for (const char* key : {"messages", "conversations"})
    if (document.contains(key)) return messages_of(document[key], key);
  if (document.contains("prompt") && document.contains("completion")) return prompt_and_completion(document);
  return std::nullopt;
}

Json tools_of(const Json& document) {
  const auto found = document.find("tools");
  if (found == document.end() || found->is_null()) return nullptr;
  // Some keep the list as a text, since its schemas differ from line to line.
  Json tools = found->is_string()
                   ? Json::parse(found->get<std::string>(), nullptr, /*allow_exceptions=*/false)
                   : *found;
  if (!tools.is_array()) fail(ExitCode::kBadData, "'tools' is no list");
  return tools.empty() ? Json() : tools;
}

Conversation conversation_of(Json messages, const Json& document, const LineOptions& options) {
  Conversation made;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    check_message(message, i);
    const auto train = message.find("train");
    if (train != message.end() && !train->is_boolean())
      fail(ExitCode::kBadData, "message {}: 'train' is {}, expected true or false", i + 1,
           printable(train->dump()));
    made.is_trained.push_back(train == message.end() || train->get<bool>());
    message.erase("train");
    if (!options.keeps_tools) message.erase("tool_calls");
    if (!options.keeps_tools && !message.contains("content")) message["content"] = "";
    for (const std::string_view key : kReasoning)
      if (!options.keeps_reasoning) message.erase(std::string(key));
  }
  made.messages = std::make_shared<const Json>(std::move(messages));
  made.tools = std::make_shared<const Json>(options.keeps_tools ? tools_of(document) : Json());
  return made;
}

}  // namespace

Line read_line(std::string_view line, const LineOptions& options) {
  const Json document = parse_json_object<Json>(line, "");
  if (!options.field.empty()) return {.text = text_at(document, options.field), .conversation = {}};
  if (std::optional<Json> messages = messages_in(document))
    return {.text = "", .conversation = conversation_of(std::move(*messages), document, options)};
  return {.text = text_at(document, "text"), .conversation = {}};
}

}  // namespace sluice::corpus
