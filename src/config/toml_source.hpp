// Job files and overrides as flat lists of keys with positions. The only user of toml++.
#pragma once

#include "config/domain.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct TomlEntry;

/// A table in an array of tables, with its keys in file order.
struct TomlRow {
  std::string where;
  std::vector<TomlEntry> cells;
};

/// Entry of a job file: a key with its value, or a table. A table's own entry has an empty key and comes
/// before the entries of its keys.
struct TomlEntry {
  std::string where;  ///< place of the entry: "job.toml:3:1", or "--set a.b=c"
  std::string table;
  /// Name of the key in the schema; "" for the table itself, or for a value where a table is expected.
  std::string key;
  Value value;
  std::string found;            ///< value in words for a message: "\"node\"", "5", "a date", "a table"
  std::vector<TomlRow> rows{};  ///< tables in an array of tables; then `value` is empty
};

/// Entries of a TOML text in file order. Error(kBadConfig) with file:line:column for text that is not TOML.
[[nodiscard]] std::vector<TomlEntry> parse_toml(std::string_view text, const std::string& file_name);

/// Value of the TOML text "value = TEXT"; empty if it is not TOML.
[[nodiscard]] Value typed_value(const std::string& text);

/// Last text that a job file, or the overrides after it, gives the key, with variables as written; nothing if
/// the key is not given.
[[nodiscard]] std::optional<std::string> written_text(std::string_view text, const std::string& file_name,
                                                      std::span<const std::string> overrides,
                                                      std::string_view table, std::string_view key);

/// Entries of "table.key=value"; a value that is not TOML is a bare string. Error(kUsage) for any other form.
[[nodiscard]] std::vector<TomlEntry> parse_override(const std::string& assignment);

/// Text that a TOML string as written by toml_text() stands for; "" if `spelling` is not a string.
[[nodiscard]] std::string text_in_toml(const std::string& spelling);

}  // namespace sluice
