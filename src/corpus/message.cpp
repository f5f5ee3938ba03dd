#include "corpus/message.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/json_row.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace sluice::corpus {
namespace {

using Json = nlohmann::ordered_json;

/// Roles of chat templates by the names of speakers in ShareGPT's form.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kSpeakers = {{
    {"human", "user"},
    {"user", "user"},
    {"gpt", "assistant"},
    {"chatgpt", "assistant"},
    {"assistant", "assistant"},
    {"model", "assistant"},
    {"bot", "assistant"},
    {"system", "system"},
    {"developer", "developer"},
    {"tool", "tool"},
    {"observation", "tool"},
    {"function_response", "tool"},
    {"tool_response", "tool"},
    {"ipython", "ipython"},
}};
/// Roles whose messages are a function call as JSON.
constexpr std::array<std::string_view, 2> kCallers = {"function_call", "tool_call"};
constexpr std::array<std::string_view, 7> kRoles = {"system",   "user",      "assistant", "tool",
                                                    "function", "developer", "ipython"};

void drop_nulls(Json& object) {
  if (!object.is_object()) return;
  for (auto entry = object.begin(); entry != object.end();)
    entry = entry->is_null() ? object.erase(entry) : std::next(entry);
}

Json call_of(const Json& function) { return {{"type", "function"}, {"function", function}}; }

/// Function calls that LLaMA-Factory keeps as a message's text: an object with "name" and "arguments", or a
/// list of them.
Json calls_in(const std::string& text) {
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Json calls = Json::array();
  for (const Json& function : value.is_array() ? value : Json::array({value})) {
    if (!function.is_object() || !function.contains("name"))
      fail(ExitCode::kBadData, "a call of a function is '{}', expected JSON with \"name\" and \"arguments\"",
           printable(text));
    calls.push_back(call_of(function));
  }
  return calls;
}

Json message_of_speaker(const Json& turn) {
  const std::string speaker = text_at(turn, "from");
  const std::string value = text_at(turn, "value");
  Json message;
  if (std::ranges::find(kCallers, speaker) != kCallers.end()) {
    message = {{"role", "assistant"}, {"content", ""}, {"tool_calls", calls_in(value)}};
  } else {
    const auto found =
        std::ranges::find(kSpeakers, speaker, &std::pair<std::string_view, std::string_view>::first);
    if (found == kSpeakers.end())
      fail(ExitCode::kBadData, "'from' is '{}', expected human, gpt, system, tool or function_call",
           printable(speaker));
    message = {{"role", found->second}, {"content", value}};
  }
  for (const auto& [key, other] : turn.items())
    if (key != "from" && key != "value") message[key] = other;
  return message;
}

/// Joins a list of parts to one text; parts of other kinds need a model that sees or hears.
void join_parts(Json& message, std::size_t index) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return;
  std::string joined;
  for (const Json& part : *content) {
    const bool is_text = part.is_object() && (!part.contains("type") || part["type"] == "text") &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text && !part.is_string())
      fail(ExitCode::kBadData, "message {} has a part that is not text ({}); only text can be learnt",
           index + 1, printable(part.dump(), 60));
    joined += (is_text ? part["text"] : part).get_ref<const std::string&>();
  }
  *content = joined;
}

void tidy_calls(Json& message) {
  if (const auto old = message.find("function_call"); old != message.end()) {
    if (!message.contains("tool_calls")) message["tool_calls"] = Json::array({call_of(*old)});
    message.erase("function_call");
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    drop_nulls(call);
    if (call.is_object() && call.contains("function")) drop_nulls(call["function"]);
  }
}

/// Removes a mark from a message that says whether it is learnt, and returns it; nothing if there is none.
std::optional<bool> take_mark(Json& message, const char* key, std::size_t index) {
  const auto found = message.find(key);
  if (found == message.end()) return std::nullopt;
  const bool is_weight = std::string_view(key) == "weight";
  const bool is_mark = is_weight ? *found == 0 || *found == 1 : found->is_boolean();
  if (!is_mark)
    fail(ExitCode::kBadData, "message {}: '{}' is {}, expected {}", index + 1, key, printable(found->dump()),
         is_weight ? "0 or 1" : "true or false");
  const bool value = is_weight ? *found == 1 : found->get<bool>();
  message.erase(key);
  return value;
}

}  // namespace

Json messages_of(const Json& value, std::string_view key, std::string_view role) {
  if (value.is_string()) return Json::array({{{"role", role}, {"content", value}}});
  const Json list = value.is_object() ? Json::array({value}) : value;
  if (!list.is_array() || list.empty())
    fail(ExitCode::kBadData, "'{}' is {}, expected a list of messages", key,
         list.is_array() ? "an empty list" : std::string("a JSON ") + list.type_name());
  Json messages = Json::array();
  for (Json turn : list) {
    drop_nulls(turn);
    const bool is_sharegpt = turn.is_object() && turn.contains("from") && !turn.contains("role");
    messages.push_back(is_sharegpt ? message_of_speaker(turn) : std::move(turn));
  }
  return messages;
}

bool tidy_message(Json& message, std::size_t index) {
  if (!message.is_object())
    fail(ExitCode::kBadData, "message {} is a JSON {}, expected an object", index + 1, message.type_name());
  const std::string role = text_at(message, "role");
  if (std::ranges::find(kRoles, role) == kRoles.end())
    fail(ExitCode::kBadData, "message {} has the role '{}', expected system, user, assistant or tool",
         index + 1, printable(role));
  tidy_calls(message);
  if (!message.contains("content") && !message.contains("tool_calls"))
    fail(ExitCode::kBadData, "message {} has neither 'content' nor 'tool_calls'", index + 1);
  join_parts(message, index);
  const bool is_trained = take_mark(message, "train", index).value_or(true);
  const bool has_weight = take_mark(message, "weight", index).value_or(true);
  const bool is_masked = take_mark(message, "masked", index).value_or(false);
  return is_trained && has_weight && !is_masked;
}

}  // namespace sluice::corpus
