#include "io/json_object.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace sluice {

namespace json_names {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<std::pair<std::string_view, double>, 3> kNames{{
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", kInfinity},
    {"-Infinity", -kInfinity},
}};

/// Whether a text is the beginning of a number's name, and not the whole.
bool begins_name(std::string_view text) {
  return std::ranges::any_of(kNames, [&](const auto& entry) {
    return !text.empty() && text.size() < entry.first.size() && entry.first.starts_with(text);
  });
}

/// Name of a number that begins at `at`, if a value may end behind it; else "".
std::string_view name_at(std::string_view text, std::size_t at) {
  for (const auto& [name, number] : kNames) {
    if (text.substr(at, name.size()) != name) continue;
    const std::size_t next = text.find_first_not_of(" \t\r\n", at + name.size());
    if (next == std::string_view::npos || std::string_view(",]}").find(text[next]) != std::string_view::npos)
      return name;
  }
  return "";
}

/// Index behind the string that begins at `at`, or the end of the text.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

}  // namespace

std::optional<std::string> mark_numbers(std::string_view text) {
  if (text.find("NaN") == std::string_view::npos && text.find("Infinity") == std::string_view::npos)
    return std::nullopt;
  std::string marked;
  std::size_t copied = 0;
  for (std::size_t at = 0; (at = text.find_first_of("\"NI-", at)) != std::string_view::npos;) {
    if (text[at] == '"') {
      at = end_of_string(text, at);
      continue;
    }
    const std::string_view name = name_at(text, at);
    if (name.empty()) {
      ++at;
      continue;
    }
    marked.append(text.substr(copied, at - copied)).append("\"").append(kMark).append(name).append("\"");
    copied = at += name.size();
  }
  if (copied == 0) return std::nullopt;
  return marked.append(text.substr(copied));
}

std::string unmark_numbers(std::string_view text) {
  std::string plain(text);
  for (const auto& [name, number] : kNames) {
    const std::string marked = std::string("\"").append(kMark).append(name).append("\"");
    for (std::size_t at = 0; (at = plain.find(marked, at)) != std::string::npos; at += name.size())
      plain.replace(at, marked.size(), name);
  }
  return plain;
}

std::optional<double> marked_number(std::string_view value) {
  if (!value.starts_with(kMark)) return std::nullopt;
  for (const auto& [name, number] : kNames)
    if (value.substr(kMark.size()) == name) return number;
  return std::nullopt;
}

std::string_view name_of(double number) {
  if (std::isnan(number)) return kNames[0].first;
  if (std::isinf(number)) return kNames[number > 0 ? 1 : 2].first;
  return "";
}

}  // namespace json_names
std::string json_fault_hint(std::string_view message, std::size_t byte, std::string_view text) {
  const std::string_view rest = text.substr(std::min(byte > 0 ? byte - 1 : 0, text.size()));
  if (byte > text.size() || json_names::begins_name(rest)) return "; was the file cut short?";
  if (message.find("surrogate") == std::string_view::npos) return "";
  return "; it has one half alone of a character that JSON writes as two \\u escapes: write the character "
         "itself, or leave the half out";
}

}  // namespace sluice
