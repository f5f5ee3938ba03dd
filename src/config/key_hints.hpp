// Hints for names that a job file does not have.
#pragma once

#include "config/schema.hpp"

#include <string>

namespace sluice {

/// Hint in words that follow "unknown table, ": our name for another trainer's, the nearest name, or all
/// names.
[[nodiscard]] std::string table_hint(const std::string& name);

/// Hint for a key in a table, in words that follow "unknown key, ". Considers the keys of other tables, too.
[[nodiscard]] std::string key_hint(const Table& table, const std::string& key);

/// Hint for a key outside of all tables.
[[nodiscard]] std::string hint_outside_tables(const std::string& key);

/// Hint for a key in a list of tables.
[[nodiscard]] std::string column_hint(const Field& field, const std::string& key);

}  // namespace sluice
