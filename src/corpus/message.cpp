#include "corpus/message.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "corpus/json_row.hpp"
#include "corpus/list_text.hpp"

#include <fmt/format.h>

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
/// Types of the parts of a message's content that are no texts.
constexpr std::array<std::string_view, 10> kOtherParts = {
    "image", "image_url", "input_image", "video", "video_url",
    "audio", "audio_url", "input_audio", "file",  "input_file"};
constexpr std::array<std::string_view, 7> kRoles = {"system",   "user",      "assistant", "tool",
                                                    "function", "developer", "ipython"};

void drop_nulls(Json& object) {
  if (!object.is_object()) return;
  for (auto entry = object.begin(); entry != object.end();)
    entry = entry->is_null() ? object.erase(entry) : std::next(entry);
}

/// Text at a key, or "".
std::string_view text_or_none(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return "";
  return found->get_ref<const std::string&>();
}

/// Role of a speaker in ShareGPT's form; nothing if there is no such speaker, or he calls a function.
std::optional<std::string_view> role_of_speaker(std::string_view name) {
  const auto found =
      std::ranges::find(kSpeakers, name, &std::pair<std::string_view, std::string_view>::first);
  return found == kSpeakers.end() ? std::nullopt : std::optional(found->second);
}

bool is_caller(std::string_view speaker) { return std::ranges::find(kCallers, speaker) != kCallers.end(); }

bool is_role(std::string_view role) { return std::ranges::find(kRoles, role) != kRoles.end(); }

/// Whether all items of a list say something in a known role: lists of flights and of persons have "from" and
/// "role", too.
bool are_messages(const Json& list, bool is_cut) {
  return std::all_of(list.begin(), list.end(), [&](const Json& item) {
    if (!item.is_object()) return false;
    const std::string_view speaker = text_or_none(item, "from");
    if (is_role(text_or_none(item, "role")))
      return is_cut || item.contains("content") || item.contains("tool_calls") ||
             item.contains("function_call");
    const bool says = is_cut || (item.contains("value") && item["value"].is_string());
    return says && (role_of_speaker(speaker) || is_caller(speaker));
  });
}

/// The same at keys that hold nothing but messages: of any role, so that an unknown one is refused by name.
bool have_roles(const Json& list, bool /*is_cut*/) {
  return std::all_of(list.begin(), list.end(), [](const Json& item) {
    return item.is_object() && !(text_or_none(item, "role").empty() && text_or_none(item, "from").empty());
  });
}

Json call_of(const Json& function) { return {{"type", "function"}, {"function", function}}; }

/// Function calls that LLaMA-Factory keeps as a message's text: an object with "name" and "arguments", or a
/// list of them.
Json calls_in(const std::string& text) {
  const Json value = json_in(text).value_or(Json());
  Json calls = Json::array();
  for (const Json& function : value.is_array() ? value : Json::array({value})) {
    if (!function.is_object() || !function.contains("name"))
      fail({ExitCode::kBadData, "corpus.row"},
           "a call of a function is '{}', expected JSON with \"name\" and \"arguments\"", printable(text));
    calls.push_back(call_of(function));
  }
  return calls;
}

Json message_of_speaker(const Json& turn) {
  const std::string speaker = text_at(turn, "from");
  const std::string value = text_at(turn, "value");
  Json message;
  if (is_caller(speaker)) {
    message = {{"role", "assistant"}, {"content", ""}, {"tool_calls", calls_in(value)}};
  } else if (const auto role = role_of_speaker(speaker)) {
    message = {{"role", *role}, {"content", value}};
  } else {
    fail({ExitCode::kBadData, "corpus.row"},
         "'from' is '{}', expected human, gpt, system, tool or function_call", printable(speaker));
  }
  for (const auto& [key, other] : turn.items())
    if (key != "from" && key != "value") message[key] = other;
  return message;
}

/// Whether a list has parts of a message's content, of which at least one is a text. An object with more keys than
/// a part's is other JSON.
bool are_parts(const Json& list, bool is_cut) {
  const auto is_text = [&](const Json& part) {
    if (is_cut) return text_or_none(part, "type") == "text";
    return part.is_object() && part.size() == 2 && text_or_none(part, "type") == "text" &&
           part.contains("text") && part["text"].is_string();
  };
  const auto is_other = [](const Json& part) {
    return part.is_object() &&
           std::ranges::find(kOtherParts, text_or_none(part, "type")) != kOtherParts.end();
  };
  return std::any_of(list.begin(), list.end(), is_text) &&
         std::all_of(list.begin(), list.end(),
                     [&](const Json& part) { return is_text(part) || is_other(part); });
}

/// Joins a list of parts to one text; parts of other kinds need a model that sees or hears.
void join_parts(Json& message, std::size_t index) {
  const auto content = message.find("content");
  if (content == message.end()) return;
  if (content->is_string())
    if (std::optional<Json> parts = list_in_text(content->get_ref<const std::string&>(), are_parts,
                                                 fmt::format("message {}: 'content'", index + 1)))
      *content = std::move(*parts);
  if (!content->is_array()) return;
  std::string joined;
  for (const Json& part : *content) {
    const bool is_text = part.is_object() && (!part.contains("type") || part["type"] == "text") &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text && !part.is_string())
      fail({ExitCode::kBadData, "corpus.row"},
           "message {} has a part that is not text ({}); only text can be learnt", index + 1,
           printable(part.dump(), 60));
    joined += (is_text ? part["text"] : part).get_ref<const std::string&>();
  }
  *content = joined;
}

/// Opens the text as which a message may keep its calls, at one of the keys for them; drops the text of none.
void open_calls(Json& message, const char* key, std::size_t index) {
  const auto calls = message.find(key);
  if (calls == message.end()) return;
  open_text(*calls);
  if (calls->is_null() || *calls == "")
    message.erase(calls);
  else if (calls->is_string())
    fail({ExitCode::kBadData, "corpus.row"},
         "message {}: '{}' is the text '{}', expected calls of functions, or their JSON", index + 1, key,
         printable(calls->get_ref<const std::string&>(), 60));
}

void tidy_calls(Json& message, std::size_t index) {
  for (const char* key : {"tool_calls", "function_call"}) open_calls(message, key, index);
  if (const auto old = message.find("function_call"); old != message.end()) {
    if (!message.contains("tool_calls")) message["tool_calls"] = Json::array({call_of(*old)});
    message.erase("function_call");
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    open_text(call);
    drop_nulls(call);
    if (!call.is_object() || !call.contains("function")) continue;
    open_text(call["function"]);
    drop_nulls(call["function"]);
  }
}

/// Removes a mark from a message that says whether it is learnt, and returns it; nothing if there is none.
std::optional<bool> take_mark(Json& message, const char* key, std::size_t index) {
  const auto found = message.find(key);
  if (found == message.end()) return std::nullopt;
  const bool is_weight = std::string_view(key) == "weight";
  const bool is_mark = is_weight ? *found == 0 || *found == 1 : found->is_boolean();
  if (!is_mark)
    fail({ExitCode::kBadData, "corpus.row"}, "message {}: '{}' is {}, expected {}", index + 1, key,
         printable(found->dump()), is_weight ? "0 or 1" : "true or false");
  const bool value = is_weight ? *found == 1 : found->get<bool>();
  message.erase(key);
  return value;
}

}  // namespace

std::optional<Json> messages_in_text(const std::string& text, std::string_view key) {
  const bool has_messages_alone = key == "messages" || key == "conversations";
  return list_in_text(text, has_messages_alone ? have_roles : are_messages, fmt::format("'{}'", key));
}

Json messages_of(const Json& value, std::string_view key, std::string_view role) {
  Json list = value.is_object() ? Json::array({value}) : value;
  if (value.is_string())
    list = messages_in_text(value.get_ref<const std::string&>(), key)
               .value_or(Json::array({{{"role", role}, {"content", value}}}));
  if (!list.is_array() || list.empty())
    fail({ExitCode::kBadData, "corpus.row"}, "'{}' is {}, expected a list of messages", key,
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
    fail({ExitCode::kBadData, "corpus.row"}, "message {} is a JSON {}, expected an object", index + 1,
         message.type_name());
  const std::string role = text_at(message, "role");
  if (!is_role(role))
    fail({ExitCode::kBadData, "corpus.row"},
         "message {} has the role '{}', expected system, user, assistant or tool", index + 1,
         printable(role));
  tidy_calls(message, index);
  if (!message.contains("content") && !message.contains("tool_calls"))
    fail({ExitCode::kBadData, "corpus.row"}, "message {} has neither 'content' nor 'tool_calls'", index + 1);
  join_parts(message, index);
  const bool is_trained = take_mark(message, "train", index).value_or(true);
  const bool has_weight = take_mark(message, "weight", index).value_or(true);
  const bool is_masked = take_mark(message, "masked", index).value_or(false);
  return is_trained && has_weight && !is_masked;
}

}  // namespace sluice::corpus
