#include "config/toml_source.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

/// toml++ limits nested values to 256 but dotted keys not at all, and destroys tables recursively: a key of
/// 100000 parts overflows the stack. No sensible line outside a comment comes near this.
constexpr std::ptrdiff_t kMaxDotsPerLine = 64;

void refuse_deep_keys(std::string_view text, const std::string& file_name) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::size_t first = line.find_first_not_of(" \t");
    const bool is_comment = first != std::string_view::npos && line[first] == '#';
    if (!is_comment && std::ranges::count(line, '.') > kMaxDotsPerLine)
      fail(ExitCode::kBadConfig, "{}:{}:1: found more than {} dots in a line, expected a job file", file_name,
           number, kMaxDotsPerLine);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
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

/// An entry and its place, for putting entries back in file order: toml++ sorts keys by name.
struct Placed {
  toml::source_position position;
  Entry entry;
};

Placed placed(const toml::key& key, const toml::node& node, std::string table, std::string name) {
  Value value = value_of(node);
  std::string found = found_text(node, value);
  return {key.source().begin, {"", std::move(table), std::move(name), std::move(value), std::move(found)}};
}

std::vector<Placed> flatten(const toml::table& root) {
  std::vector<Placed> entries;
  for (const auto& [table_key, table_node] : root) {
    const std::string table(table_key.str());
    entries.push_back(placed(table_key, table_node, table, ""));
    if (const toml::table* keys = table_node.as_table())
      for (const auto& [key, node] : *keys)
        entries.push_back(placed(key, node, table, std::string(key.str())));
  }
  std::ranges::stable_sort(entries, {}, [](const Placed& placed) {
    return std::tuple(placed.position.line, placed.position.column);
  });
  return entries;
}

/// The value in "value = TEXT", or nothing if that is not TOML of exactly one key. No key takes a date, so
/// what looks like one is a name.
std::optional<std::pair<Value, std::string>> parse_value(const std::string& text) {
  if (std::ranges::count(text, '.') > kMaxDotsPerLine) return std::nullopt;
  try {
    const toml::table table = toml::parse("value = " + text);
    if (table.size() != 1) return std::nullopt;
    const toml::node& node = table.begin()->second;
    if (node.is_date() || node.is_time() || node.is_date_time()) return std::nullopt;
    Value value = value_of(node);
    std::string found = found_text(node, value);
    return std::pair(std::move(value), std::move(found));
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

/// Without the blanks around it.
std::string without_blanks(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

std::vector<Entry> parse_toml(std::string_view text, const std::string& file_name) {
  refuse_deep_keys(text, file_name);
  std::vector<Entry> entries;
  try {
    for (Placed& item : flatten(toml::parse(text))) {
      item.entry.where = fmt::format("{}:{}:{}", file_name, item.position.line, item.position.column);
      entries.push_back(std::move(item.entry));
    }
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    fail(ExitCode::kBadConfig, "{}:{}:{}: {}", file_name, at.line, at.column,
         printable(error.description(), 300));
  }
  return entries;
}

std::vector<Entry> parse_override(const std::string& assignment) {
  const std::string where = "--set " + printable(assignment);
  const std::size_t equals = assignment.find('=');
  const std::size_t dot = assignment.find('.');
  if (equals == std::string::npos || dot == 0 || dot >= equals || dot + 1 == equals)
    fail(ExitCode::kUsage, "{}: expected table.key=value", where);
  const std::string table = without_blanks(assignment.substr(0, dot));
  const std::string key = without_blanks(assignment.substr(dot + 1, equals - dot - 1));
  const std::string text = without_blanks(assignment.substr(equals + 1));
  Entry entry{where, table, key, {}, "nothing after the ="};
  if (auto parsed = parse_value(text)) {
    std::tie(entry.value, entry.found) = std::move(*parsed);
  } else if (!text.empty()) {
    entry.value = text;
    entry.found = printable(toml_text(entry.value), 80);
  }
  return {{where, table, "", {}, "a table"}, std::move(entry)};
}

}  // namespace sluice
