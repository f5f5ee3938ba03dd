// The schema and a config as text: for ranks, files and people.
#include "base/text.hpp"
#include "config/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

std::string default_text(const Field& field) {
  return field.required ? "required" : toml_text(field.load(JobConfig{}));
}

std::string help_text(const Field& field) {
  return field.later.empty() ? field.help
                             : fmt::format("{} (not in this version: {})", field.help, field.later);
}

std::string values_text(const Field& field) {
  return field.unit.empty() ? field.expected : fmt::format("{} ({})", field.expected, field.unit);
}

std::size_t longest_key() {
  std::size_t longest = 0;
  for (const Table& table : schema())
    for (const Field& field : table.fields) longest = std::max(longest, field.key.size());
  return longest;
}

/// A key in the first column, and in the second, of which `width` counts both, its default with the values
/// that it takes, then its meaning.
std::string entry_text(const Field& field, std::size_t key_width, std::size_t width) {
  constexpr std::size_t kGap = 2;
  const std::size_t column = kGap + key_width + kGap;
  std::string out;
  for (const std::string& text :
       {fmt::format("{}; {}", default_text(field), values_text(field)), help_text(field)})
    for (const std::string& line : wrapped(text, width - column))
      out += fmt::format("  {:{}}  {}\n", out.empty() ? field.key : "", key_width, line);
  return out;
}

}  // namespace

std::vector<ConfigEntry> canonical_entries(const JobConfig& config) {
  std::vector<ConfigEntry> entries;
  for (const Table& table : schema())
    for (const Field& field : table.fields) entries.push_back({field.name(), toml_text(field.load(config))});
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
  }
  return out;
}

std::string schema_markdown() {
  std::string out;
  for (const Table& table : schema()) {
    out += fmt::format(
        "{}### `[{}]`\n\n{}.\n\n| key | default | values | unit | meaning |\n| --- | --- | --- | --- | --- "
        "|\n",
        out.empty() ? "" : "\n", table.name, table.help);
    for (const Field& field : table.fields)
      out += fmt::format("| `{}` | {} | {} | {} | {} |\n", field.key,
                         field.required ? "required" : fmt::format("`{}`", default_text(field)),
                         field.expected, field.unit, help_text(field));
  }
  return out;
}

}  // namespace sluice
