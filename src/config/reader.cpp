// Reader of job files: turns entries into a JobConfig, and collects every problem before it fails.
#include "base/error.hpp"
#include "base/text.hpp"
#include "config/contradictions.hpp"
#include "config/expand.hpp"
#include "config/job_problems.hpp"
#include "config/key_hints.hpp"
#include "config/option_values.hpp"
#include "config/schema.hpp"
#include "config/toml_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

namespace sluice {
namespace {

constexpr std::int64_t kMaxFileBytes = kMiB;

std::string missing_text(const KeyInfo& key, const std::string& name) {
  return fmt::format("{}: found nothing, expected {} ({})", name, key.expected, key.help);
}

class JobReader {
 public:
  explicit JobReader(std::string file_name) : problems_(std::move(file_name)) {}

  void take(const TomlEntry& entry);
  void check_required();
  /// The finished config. Error(kBadConfig) with all problems if there are any.
  [[nodiscard]] JobConfig done();

 private:
  void take_table(const TomlEntry& entry);
  void take_value(const Field& field, const TomlEntry& entry);
  [[nodiscard]] std::optional<Value> value_of(const KeyInfo& key, const std::string& name, TomlEntry entry,
                                              const std::function<bool(const Value&)>& take);
  [[nodiscard]] std::optional<Rows> rows_of(const Field& field, const TomlEntry& entry);
  [[nodiscard]] std::vector<Cell> cells_of(const Field& field, const std::string& name, const TomlRow& row);
  void refuse(const KeyInfo& key, const std::string& name, const TomlEntry& entry);

  JobConfig config_;
  JobProblems problems_;
};

void JobReader::take(const TomlEntry& entry) {
  if (entry.key.empty()) return take_table(entry);
  const Table* table = find_table(entry.table);
  if (table == nullptr) return;  // the problem was reported with the table's own entry
  const Field* field = find_field(*table, entry.key);
  if (field != nullptr) return take_value(*field, entry);
  problems_.add(
      entry.where, "config.unknown_key",
      fmt::format("{}.{}: unknown key, {}", table->name, printable(entry.key), key_hint(*table, entry.key)));
}

void JobReader::take_table(const TomlEntry& entry) {
  if (find_table(entry.table) == nullptr)
    problems_.add(
        entry.where, "config.unknown_key",
        fmt::format("{}: unknown table, {}", printable(entry.table),
                    entry.found == "a table" ? table_hint(entry.table) : hint_outside_tables(entry.table)));
  else if (entry.found != "a table")
    problems_.add(entry.where, "config.value",
                  fmt::format("{}: found {}, expected a table", entry.table, entry.found));
}

void JobReader::take_value(const Field& field, const TomlEntry& entry) {
  const std::string name = field.name();
  problems_.give(name, entry.where);
  const auto store = [&](const Value& value) { return field.store(value, config_); };
  if (field.columns.empty() || entry.rows.empty()) {
    if (!value_of(field, name, entry, store)) return;  // the problem has been reported
  } else {
    const std::optional<Rows> rows = rows_of(field, entry);
    if (!rows) return;
    if (!store(*rows)) return refuse(field, name, entry);
  }
  problems_.accept(name);
}

/// The reading of an entry's value, variables expanded, that `take` accepts; nothing, with the problem
/// reported, if it accepts none.
std::optional<Value> JobReader::value_of(const KeyInfo& key, const std::string& name, TomlEntry entry,
                                         const std::function<bool(const Value&)>& take) {
  const ExpandedValue expanded = expand_value(entry.value, TextKind{key.is_path});
  if (!expanded.problem.empty()) {
    problems_.add(entry.where, "config.value",
                  fmt::format("{}: found {}, but {}", name, entry.found, expanded.problem));
    return std::nullopt;
  }
  config_.variables.insert(expanded.variables.begin(), expanded.variables.end());
  for (const Value& reading : expanded.readings)
    if (take(reading)) return reading;
  if (!expanded.outcome.empty())
    entry.found = fmt::format("{}, which is {}", entry.found, printable(expanded.outcome, 80));
  refuse(key, name, entry);
  return std::nullopt;
}

/// Rows of a list of tables; nothing, with every problem reported, if a table has any.
std::optional<Rows> JobReader::rows_of(const Field& field, const TomlEntry& entry) {
  const std::size_t before = problems_.count();
  Rows rows;
  for (const TomlRow& row : entry.rows)
    rows.push_back(cells_of(field, fmt::format("{}[{}]", field.name(), rows.size()), row));
  if (problems_.count() > before) return std::nullopt;
  return rows;
}

std::vector<Cell> JobReader::cells_of(const Field& field, const std::string& name, const TomlRow& row) {
  std::vector<Cell> cells;
  for (const TomlEntry& entry : row.cells) {
    const std::string cell_name = name + "." + printable(entry.key);
    const auto column = std::ranges::find(field.columns, entry.key, &ListKey::key);
    if (column == field.columns.end()) {
      problems_.add(entry.where, "config.unknown_key",
                    fmt::format("{}: unknown key, {}", cell_name, column_hint(field, entry.key)));
      continue;
    }
    if (const std::optional<Value> value = value_of(*column, cell_name, entry, column->check))
      cells.push_back({entry.key, *value});
  }
  for (const ListKey& column : field.columns)
    if (column.required && std::ranges::find(row.cells, column.key, &TomlEntry::key) == row.cells.end())
      problems_.add(row.where, "config.missing_key", missing_text(column, name + "." + column.key));
  return cells;
}

void JobReader::refuse(const KeyInfo& key, const std::string& name, const TomlEntry& entry) {
  problems_.add(entry.where, "config.value",
                fmt::format("{}: found {}, expected {}", name, entry.found, key.expected));
}

void JobReader::check_required() {
  for (const Table& table : schema())
    for (const Field& field : table.fields)
      if (field.required) problems_.expect_given(field.name(), missing_text(field, field.name()));
}

JobConfig JobReader::done() {
  check_contradictions(config_, problems_);
  problems_.throw_if_any();
  return std::move(config_);
}

/// Bytes of a small file; reads at most one byte too many, so that reading a device file ends.
std::string read_small_file(const std::filesystem::path& file) {
  const std::string name = printable(file.string());
  std::error_code ignored;  // a fault here shows again when the file is opened
  if (std::filesystem::is_directory(file, ignored))
    fail({ExitCode::kBadConfig, "config.unreadable"}, "{}: found a directory, expected a job file", name);
  std::ifstream in(file, std::ios::binary);
  if (!in)
    fail({ExitCode::kBadConfig, "config.unreadable"}, "{}: cannot open the job file: {}", name,
         errno_text(errno));
  std::string text(static_cast<std::size_t>(kMaxFileBytes) + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad())
    fail({ExitCode::kBadConfig, "config.unreadable"}, "{}: cannot read the job file: {}", name,
         errno_text(errno));
  if (in.gcount() > kMaxFileBytes)
    fail({ExitCode::kBadConfig, "config.unreadable"}, "{}: found more than {}, expected a job file", name,
         format_mib(kMaxFileBytes));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

}  // namespace

JobConfig parse_job_config(std::string_view text, const std::string& file_name,
                           std::span<const std::string> overrides) {
  const std::string name = printable(file_name);
  JobReader reader(name);
  std::vector<TomlEntry> assigned;
  for (const std::string& assignment : overrides)
    for (TomlEntry& entry : parse_override(assignment)) assigned.push_back(std::move(entry));
  for (const TomlEntry& entry : parse_toml(text, name)) reader.take(entry);
  for (const TomlEntry& entry : assigned) reader.take(entry);
  reader.check_required();
  return reader.done();
}

JobConfig job_of_options(const std::string& command, std::span<const OptionValue> options,
                         std::span<const std::string> overrides) {
  JobReader reader(command);
  for (const OptionValue& option : options)
    for (TomlEntry& entry : parse_override(option.key + "=" + option.value)) {
      entry.where = option.option + " " + printable(option.value);
      reader.take(entry);
    }
  for (const std::string& assignment : overrides)
    for (const TomlEntry& entry : parse_override(assignment)) reader.take(entry);
  reader.check_required();
  return reader.done();
}

JobConfig load_job_config(const std::filesystem::path& file, std::span<const std::string> overrides) {
  return parse_job_config(read_small_file(file), file.string(), overrides);
}

}  // namespace sluice
