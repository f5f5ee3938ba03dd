// Hints for unknown names in a job file.
#pragma once

#include "config/schema.hpp"

#include <string>

namespace sluice {

/// Hint for an unknown table, which follows "unknown table, ": our name for another trainer's table, the
/// nearest name, or all names.
[[nodiscard]] std::string table_hint(const std::string& name);

/// Hint for an unknown key in a table, which follows "unknown key, ". Looks at the keys of other tables, too.
[[nodiscard]] std::string key_hint(const Table& table, const std::string& key);

/// Hint for an unknown key outside of all tables.
[[nodiscard]] std::string hint_outside_tables(const std::string& key);

/// Hint for an unknown key in a list of tables.
[[nodiscard]] std::string column_hint(const Field& field, const std::string& key);

}  // namespace sluice
