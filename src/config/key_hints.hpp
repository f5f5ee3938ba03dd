// What may have been meant by a name that a job file does not have.
#pragma once

#include "config/schema.hpp"

#include <string>

namespace sluice {

/// In words that follow "unknown table, ": what other trainers' name for it is here, the name that is nearest, or all names.
[[nodiscard]] std::string table_hint(const std::string& name);

/// The same of a key in a table, in words that follow "unknown key, ". Keys of other tables are looked at, too.
[[nodiscard]] std::string key_hint(const Table& table, const std::string& key);

/// The same of a key that stands outside of all tables.
[[nodiscard]] std::string hint_outside_tables(const std::string& key);

/// The same of a key in a list of tables.
[[nodiscard]] std::string column_hint(const Field& field, const std::string& key);

}  // namespace sluice
