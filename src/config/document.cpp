// Schema and config as text: for ranks, files and people.
#include "base/text.hpp"
#include "config/schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace sluice {
namespace {

std::string default_text(const KeyInfo& key) { return key.required ? "required" : key.initial; }

std::string values_text(const KeyInfo& key) {
  return key.unit.empty() ? key.expected : fmt::format("{} ({})", key.expected, key.unit);
}

std::size_t longest_key() {
  std::size_t longest = 0;
  for (const Table& table : schema())
    for (const Field& field : table.fields) longest = std::max(longest, field.key.size());
  return longest;
}

/// Meaning of a key, with what its rules say about resumed trainings.
std::string help_text(const KeyInfo& key) {
  return key.help + (key.rules.is_fixed ? "; a resumed training must keep it" : "");
}

/// Entry of a key in two columns: the key; then its default with the allowed values, and its meaning. `width`
/// counts both columns, in characters.
std::string entry_text(const KeyInfo& field, std::size_t key_width, std::size_t width) {
  constexpr std::size_t kGap = 2;
  const std::size_t column = kGap + key_width + kGap;
  std::string out;
  for (const std::string& text :
       {fmt::format("{}; {}", default_text(field), values_text(field)), help_text(field)})
    for (const std::string& line : wrapped(text, width - column))
      out += fmt::format("  {:{}}  {}\n", out.empty() ? field.key : "", key_width, line);
  return out;
}

/// Values of one key in all tables of a list, as text.
std::string column_text(const Rows& rows, const std::string& key) {
  std::vector<std::string> values;
  for (const std::vector<Cell>& row : rows)
    for (const Cell& cell : row)
      if (cell.key == key) values.push_back(toml_text(cell.value));
  return fmt::format("[{}]", fmt::join(values, ", "));
}

void append_entries(const Field& field, const JobConfig& config, std::vector<ConfigEntry>& entries) {
  const Value value = field.load(config);
  if (field.columns.empty()) entries.push_back({field.name(), toml_text(value)});
  for (const ListKey& column : field.columns)
    entries.push_back({field.name() + "." + column.key, column_text(std::get<Rows>(value), column.key)});
}

std::string markdown_row(const KeyInfo& key) {
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", key.key,
                     key.required ? "required" : fmt::format("`{}`", default_text(key)), key.expected,
                     key.unit, help_text(key));
}

std::string markdown_head(const std::string& name, const std::string& help) {
  return fmt::format(
      "### `{}`\n\n{}.\n\n| key | default | values | unit | meaning |\n| --- | --- | --- | --- | --- |\n",
      name, help);
}

std::string list_name(const Field& field) { return fmt::format("[[{}]]", field.name()); }

std::string list_help(const Field& field) { return fmt::format("A table of the list {}", field.name()); }

}  // namespace

std::vector<ConfigEntry> canonical_entries(const JobConfig& config) {
  std::vector<ConfigEntry> entries;
  for (const Table& table : schema())
    for (const Field& field : table.fields) append_entries(field, config, entries);
  return entries;
}

std::string to_toml(const JobConfig& config) {
  std::string out;
  for (const Table& table : schema()) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", table.name);
    for (const Field& field : table.fields)
      out += fmt::format("{} = {}\n", field.key, toml_text(field.load(config)));
  }
  return out;
}

std::string describe_schema(std::size_t width) {
  const std::size_t key_width = longest_key();
  std::string out =
      fmt::format("  {:{}}  default; values\n  {:{}}  meaning\n", "key", key_width, "", key_width);
  for (const Table& table : schema()) {
    out += '\n';
    for (const std::string& line : wrapped(fmt::format("[{}]  {}", table.name, table.help), width))
      out += line + '\n';
    for (const Field& field : table.fields) out += entry_text(field, key_width, width);
    for (const Field& field : table.fields) {
      if (field.columns.empty()) continue;
      out += fmt::format("\n{}  {}\n", list_name(field), list_help(field));
      for (const ListKey& column : field.columns) out += entry_text(column, key_width, width);
    }
  }
  return out;
}

std::string schema_markdown() {
  std::string out;
  for (const Table& table : schema()) {
    if (!out.empty()) out += '\n';
    out += markdown_head(fmt::format("[{}]", table.name), table.help);
    for (const Field& field : table.fields) out += markdown_row(field);
    for (const Field& field : table.fields) {
      if (field.columns.empty()) continue;
      out += '\n';
      out += markdown_head(list_name(field), list_help(field));
      for (const ListKey& column : field.columns) out += markdown_row(column);
    }
  }
  return out;
}

}  // namespace sluice
