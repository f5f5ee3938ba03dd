// JSON objects from texts of other programs. Python's json writes NaN, Infinity and -Infinity, which are not
// JSON: they are read as the numbers that they mean, so that they harm only readers that use them.
#pragma once

#include "base/error.hpp"
#include "base/text.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// Most levels of nesting: printing and freeing a value recurse once per level.
inline constexpr int kMaxJsonDepth = 64;

namespace json_names {

/// The text with each value NaN, Infinity or -Infinity replaced by a marked string; nothing if there is none.
[[nodiscard]] std::optional<std::string> mark_numbers(std::string_view text);
/// Undoes the marking of numbers in a text.
[[nodiscard]] std::string unmark_numbers(std::string_view text);
/// The number that a marked string stands for.
[[nodiscard]] std::optional<double> marked_number(std::string_view value);
/// Name of a number that is not finite, "NaN", "Infinity" or "-Infinity"; "" for a finite number.
[[nodiscard]] std::string_view name_of(double number);

/// First character of a marked string: one that Unicode gives to no text.
inline constexpr std::string_view kMark = "\uFDD0";

/// Replaces non-finite numbers by strings: `mark` followed by the number's name.
template <class Json>
void name_numbers(Json& value, std::string_view mark) {
  if (value.is_structured()) {
    for (Json& item : value) name_numbers(item, mark);
  } else if (value.is_number_float()) {
    if (const std::string_view name = name_of(value.template get<double>()); !name.empty())
      value = std::string(mark).append(name);
  }
}

}  // namespace json_names

/// Likely cause of a fault that the parser found at a byte, from 1, of a text, to follow its message; "" if none
/// is known.
[[nodiscard]] std::string json_fault_hint(std::string_view message, std::size_t byte, std::string_view text);

/// Parses JSON; NaN, Infinity and -Infinity count as numbers. `prefix` begins the message of an error,
/// "config.json: ". Error(kBadData) if the text is not JSON, or nested deeper than kMaxJsonDepth.
template <class Json = nlohmann::json>
[[nodiscard]] Json parse_json(std::string_view text, std::string_view prefix) {
  const auto limit_depth = [&](int depth, typename Json::parse_event_t, const Json&) {
    if (depth > kMaxJsonDepth)
      fail({ExitCode::kBadData, "io.json"}, "{}found values nested deeper than {} levels", prefix,
           kMaxJsonDepth);
    return true;
  };
  const auto take_marked = [&](int depth, typename Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::value && value.is_string())
      if (const auto number = json_names::marked_number(value.template get_ref<const std::string&>()))
        value = *number;
    return limit_depth(depth, event, value);
  };
  const std::optional<std::string> marked = json_names::mark_numbers(text);
  try {
    return marked ? Json::parse(*marked, take_marked) : Json::parse(text, limit_depth);
  } catch (const typename Json::parse_error& error) {
    fail({ExitCode::kBadData, "io.json"}, "{}is not valid JSON ({}){}", prefix, printable(error.what(), 200),
         json_fault_hint(error.what(), error.byte, marked ? *marked : text));
  } catch (const typename Json::exception& error) {
    fail({ExitCode::kBadData, "io.json"}, "{}is not valid JSON ({})", prefix, printable(error.what(), 200));
  }
}

/// Parses a JSON object, as parse_json() does. Error(kBadData) for any other value, too.
template <class Json = nlohmann::json>
[[nodiscard]] Json parse_json_object(std::string_view text, std::string_view prefix) {
  Json document = parse_json<Json>(text, prefix);
  if (!document.is_object())
    fail({ExitCode::kBadData, "io.json"}, "{}found a JSON {}, expected an object", prefix,
         document.type_name());
  return document;
}

/// Value as text for messages, with the names of numbers that are not finite.
template <class Json>
[[nodiscard]] std::string shown_json(Json value) {
  if (value.is_number_float())
    if (const std::string_view name = json_names::name_of(value.template get<double>()); !name.empty())
      return std::string(name);
  json_names::name_numbers(value, "");
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Value as text for files, indented by two spaces per level; numbers that are not finite as Python's json
/// writes them.
template <class Json>
[[nodiscard]] std::string json_file_text(Json value) {
  json_names::name_numbers(value, json_names::kMark);
  return json_names::unmark_numbers(value.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

}  // namespace sluice
