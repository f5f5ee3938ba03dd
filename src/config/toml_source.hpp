// Job files and overrides as flat lists of keys with positions. The only user of toml++.
#pragma once

#include "config/domain.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct Entry;

/// A table in an array, its keys in file order.
struct EntryRow {
  std::string where;
  std::vector<Entry> cells;
};

/// Entry at one place of a job file. A table gives an entry of its own, with an empty key, before those of
/// its keys.
struct Entry {
  std::string where;  ///< "job.toml:3:1", or "--set a.b=c"
  std::string table;
  std::string key;  ///< the schema's spelling; "" for the table itself, or for a value where a table belongs
  Value value;
  std::string found;             ///< the value in words for a message: "\"node\"", "5", "a date", "a table"
  std::vector<EntryRow> rows{};  ///< tables of an array of tables; then `value` is empty
};

/// Entries of a TOML text in file order. Error(kBadConfig) with file:line:column for text that is not TOML.
[[nodiscard]] std::vector<Entry> parse_toml(std::string_view text, const std::string& file_name);

/// Value of "value = TEXT" as TOML; empty if it is no TOML.
[[nodiscard]] Value typed_value(const std::string& text);

/// The last text that a job file or the overrides behind it give the key, with variables as they were
/// written; nothing if none.
[[nodiscard]] std::optional<std::string> written_text(std::string_view text, const std::string& file_name,
                                                      std::span<const std::string> overrides,
                                                      std::string_view table, std::string_view key);

/// Entries of "table.key=value", where a value that is no TOML is a bare string. Error(kUsage) if it has
/// another form.
[[nodiscard]] std::vector<Entry> parse_override(const std::string& assignment);

/// The text that a TOML string spells: what toml_text() has made of it; "" if it is no string.
[[nodiscard]] std::string text_in_toml(const std::string& spelling);

}  // namespace sluice
