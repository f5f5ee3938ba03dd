// The schema and a config as text: for ranks, files and people.
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

/// One line of describe_schema().
struct Row {
  std::string key;
  std::string initial;
  std::string expected;
};

Row row(const Field& field) {
  const std::string unit = field.unit.empty() ? "" : fmt::format(" ({})", field.unit);
  return {field.key, default_text(field), field.expected + unit};
}

/// The widest entry of each column over the whole schema.
Row widest() {
  Row widest;
  const auto widen = [](std::string& most, const std::string& text) {
    if (text.size() > most.size()) most = text;
  };
  for (const Table& table : schema())
    for (const Field& field : table.fields) {
      const Row cells = row(field);
      widen(widest.key, cells.key);
      widen(widest.initial, cells.initial);
      widen(widest.expected, cells.expected);
    }
  return widest;
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

std::string describe_schema() {
  const Row width = widest();
  std::string out = fmt::format("  {:{}}  {:{}}  {:{}}  {}\n", "key", width.key.size(), "default",
                                width.initial.size(), "values", width.expected.size(), "meaning");
  for (const Table& table : schema()) {
    out += fmt::format("\n[{}]  {}\n", table.name, table.help);
    for (const Field& field : table.fields) {
      const Row cells = row(field);
      out += fmt::format("  {:{}}  {:{}}  {:{}}  {}\n", cells.key, width.key.size(), cells.initial,
                         width.initial.size(), cells.expected, width.expected.size(), help_text(field));
    }
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
