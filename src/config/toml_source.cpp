#include "config/toml_source.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/key_aliases.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

/// Largest number of parts of a dotted key, far above that of any sensible one. toml++ limits nested values to
/// 256, but dotted keys not at all, and destroys tables recursively: a key of 100000 parts overflows the stack.
constexpr int kMaxKeyParts = 64;

/// Place behind the TOML string that begins with a quote at `begin`: behind its closing quotes, or at the end of
/// the line that lacks them, where toml++ gives up as well.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool has_lines = text.substr(begin).starts_with(three);
  for (std::size_t at = begin + (has_lines ? 3 : 1); at < text.size(); ++at) {
    if (text[at] == '\n' && !has_lines) return at;
    if (text[at] == '\\' && quote == '"' && at + 1 < text.size() && text[at + 1] != '\n')
      ++at;
    else if (text[at] == quote && !has_lines)
      return at + 1;
    else if (text.substr(at).starts_with(
                 three))  // up to two quotes before the closing ones are of the string
      return std::min(text.find_first_not_of(quote, at), std::min(at + 5, text.size()));
  }
  return text.size();
}

/// Line, from 1, of the first key of more than kMaxKeyParts parts in a TOML text; 0 if there is none. Dots in
/// strings and comments part no key, and a number has one at most.
std::int64_t line_of_deep_key(std::string_view text) {
  std::int64_t line = 1;
  int parts = 1;
  for (std::size_t at = 0; at < text.size();) {
    const char character = text[at];
    std::size_t next = at + 1;
    if (character == '"' || character == '\'') next = end_of_string(text, at);
    if (character == '#') next = std::min(text.find('\n', at), text.size());
    if (character == '.' && ++parts > kMaxKeyParts) return line;
    if (std::string_view("\n=,[]{}").find(character) != std::string_view::npos) parts = 1;
    line += std::ranges::count(text.substr(at, next - at), '\n');
    at = next;
  }
  return 0;
}

std::optional<double> number_in(const toml::node& node) {
  if (!node.is_number()) return std::nullopt;
  return node.value<double>();
}

Value array_value(const toml::array& array) {
  std::vector<double> numbers;
  std::vector<std::string> texts;
  for (const toml::node& node : array)
    if (const auto* text = node.as_string()) texts.push_back(text->get());
  if (!texts.empty()) return std::ssize(texts) == std::ssize(array) ? Value(texts) : Value();
  for (const toml::node& node : array) {
    const std::optional<double> number = number_in(node);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

Value value_of(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* array = node.as_array()) return array_value(*array);
  return {};
}

std::string found_text(const toml::node& node, const Value& value) {
  if (node.is_table()) return "a table";
  if (node.is_array_of_tables()) return "an array of tables";
  if (node.is_array() && value.index() == 0) return "an array of other things than numbers, or than texts";
  if (value.index() == 0) return "a date or time";
  return printable(toml_text(value), 80);
}

/// Function that names a place in the file for a message.
using NamePlace = std::function<std::string(const toml::source_position&)>;

bool is_before(const toml::source_position& a, const toml::source_position& b) {
  return std::tuple(a.line, a.column) < std::tuple(b.line, b.column);
}

/// Keys of a table in file order; toml++ sorts them by name.
std::vector<std::pair<const toml::key*, const toml::node*>> in_file_order(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> keys;
  for (const auto& [key, node] : table) keys.emplace_back(&key, &node);
  std::ranges::stable_sort(keys, [](const auto& a, const auto& b) {
    return is_before(a.first->source().begin, b.first->source().begin);
  });
  return keys;
}

TomlEntry entry_of(const toml::node& node, std::string where, std::string table, std::string key,
                   const NamePlace& name_place) {
  Value value = value_of(node);
  std::string found = found_text(node, value);
  TomlEntry entry{std::move(where), std::move(table), std::move(key), std::move(value), std::move(found)};
  const toml::array* array = node.as_array();
  if (array == nullptr || !array->is_array_of_tables()) return entry;
  for (const toml::node& element : *array) {
    const toml::table& row = *element.as_table();
    TomlRow& out = entry.rows.emplace_back(TomlRow{name_place(row.source().begin), {}});
    for (const auto& [cell_key, cell] : in_file_order(row))
      out.cells.push_back(entry_of(*cell, name_place(cell_key->source().begin), "",
                                   std::string(cell_key->str()), name_place));
  }
  return entry;
}

/// An entry with its place, for sorting the entries of all tables in file order.
struct Placed {
  toml::source_position position;
  TomlEntry entry;
};

std::vector<Placed> flatten(const toml::table& root, const NamePlace& name_place) {
  std::vector<Placed> entries;
  const auto add = [&](const toml::key& key, const toml::node& node, std::string table, std::string name) {
    const toml::source_position& place = key.source().begin;
    entries.push_back(
        {place, entry_of(node, name_place(place), std::move(table), std::move(name), name_place)});
  };
  for (const auto& [table_key, table_node] : root) {
    const std::string table(table_key.str());
    add(table_key, table_node, table, "");
    if (const toml::table* keys = table_node.as_table())
      for (const auto& [key, node] : *keys) add(key, node, table, std::string(current_key(table, key.str())));
  }
  std::ranges::stable_sort(entries, is_before, &Placed::position);
  return entries;
}

/// Refuses a key that is given under its current and an earlier name; TOML itself refuses one that is given
/// twice.
void refuse_both_spellings(const std::vector<TomlEntry>& entries) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const TomlEntry& entry : entries)
    if (!seen.emplace(entry.table, entry.key).second)
      fail(
          {ExitCode::kBadConfig, "config.syntax"},
          "{}: {}.{}: found twice, the other time under its earlier or present name; expected it once, as {}",
          entry.where, entry.table, entry.key, entry.key);
}

/// Entry for the TOML text "value = TEXT", or nothing if it is not TOML of exactly one key. No key takes a
/// date, so a text that looks like one is a name.
std::optional<TomlEntry> parse_value(const std::string& where, const std::string& table,
                                     const std::string& key, const std::string& text) {
  if (line_of_deep_key(text) != 0) return std::nullopt;
  try {
    const toml::table parsed = toml::parse("value = " + text);
    if (parsed.size() != 1) return std::nullopt;
    const toml::node& node = parsed.begin()->second;
    if (node.is_date() || node.is_time() || node.is_date_time()) return std::nullopt;
    return entry_of(node, where, table, key, [&](const toml::source_position&) { return where; });
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

/// A text without the blanks around it.
std::string without_blanks(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

std::vector<TomlEntry> parse_toml(std::string_view text, const std::string& file_name) {
  if (const std::int64_t line = line_of_deep_key(text); line != 0)
    fail({ExitCode::kBadConfig, "config.syntax"},
         "{}:{}:1: found a key of more than {} parts, expected a job file", file_name, line, kMaxKeyParts);
  std::vector<TomlEntry> entries;
  try {
    const NamePlace name_place = [&](const toml::source_position& place) {
      return fmt::format("{}:{}:{}", file_name, place.line, place.column);
    };
    for (Placed& item : flatten(toml::parse(text), name_place)) entries.push_back(std::move(item.entry));
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    fail({ExitCode::kBadConfig, "config.syntax"}, "{}:{}:{}: {}", file_name, at.line, at.column,
         printable(error.description(), 300));
  }
  refuse_both_spellings(entries);
  return entries;
}

Value typed_value(const std::string& text) {
  std::optional<TomlEntry> parsed = parse_value("", "", "", text);
  return parsed ? std::move(parsed->value) : Value();
}

std::optional<std::string> written_text(std::string_view text, const std::string& file_name,
                                        std::span<const std::string> overrides, std::string_view table,
                                        std::string_view key) {
  std::vector<TomlEntry> entries = parse_toml(text, file_name);
  for (const std::string& assignment : overrides)
    for (TomlEntry& entry : parse_override(assignment)) entries.push_back(std::move(entry));
  std::optional<std::string> found;
  for (const TomlEntry& entry : entries)
    if (const auto* value = std::get_if<std::string>(&entry.value);
        value != nullptr && entry.table == table && entry.key == key)
      found = *value;
  return found;
}

std::vector<TomlEntry> parse_override(const std::string& assignment) {
  const std::string where = "--set " + printable(assignment);
  const std::size_t equals = assignment.find('=');
  const std::size_t dot = assignment.find('.');
  if (equals == std::string::npos || dot == 0 || dot >= equals || dot + 1 == equals)
    fail({ExitCode::kUsage, "command.usage"}, "{}: expected table.key=value", where);
  const std::string table = without_blanks(assignment.substr(0, dot));
  const std::string key(current_key(table, without_blanks(assignment.substr(dot + 1, equals - dot - 1))));
  const std::string text = without_blanks(assignment.substr(equals + 1));
  TomlEntry entry{where, table, key, {}, "nothing after the ="};
  if (std::optional<TomlEntry> parsed = parse_value(where, table, key, text)) {
    entry = std::move(*parsed);
  } else if (!text.empty()) {
    entry.value = text;
    entry.found = printable(toml_text(entry.value), 80);
  }
  return {{where, table, "", {}, "a table"}, std::move(entry)};
}

std::string text_in_toml(const std::string& spelling) {
  const std::optional<TomlEntry> parsed = parse_value("", "", "", spelling);
  const auto* text = parsed ? std::get_if<std::string>(&parsed->value) : nullptr;
  return text == nullptr ? "" : *text;
}

}  // namespace sluice
