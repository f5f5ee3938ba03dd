// The one list of keys. Defaults, bounds, messages, help and documentation all come from here.
#pragma once

#include "config/domain.hpp"
#include "config/job_config.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Rules of a key besides the values that it takes. All ranks must agree on every key.
struct KeyRules {
  /// Whether a resumed training must keep the value: it says what saved numbers mean, or which tokens follow.
  bool is_fixed = false;
  bool is_chosen_by_fit = false;  ///< whether optimizer.fit = "auto" chooses the value
  bool changes_answers = false;   ///< whether answers to prompts depend on the value
};

/// Description of a key.
struct KeyInfo {
  std::string key;
  std::string unit;       ///< "" where the number is a plain count or there is none
  std::string help;       ///< meaning of the key, and what a larger value costs
  std::string expected;   ///< the values it takes, in words
  bool is_path = false;   ///< whether the value is a path, whose variables are expanded before it is stored
  bool required = false;  ///< the struct's initial value is not a value that the key takes
  std::string initial;    ///< initial value as TOML
  KeyRules rules;
};

/// A key of the tables in a list.
struct ListKey : KeyInfo {
  std::function<bool(const Value&)> check;  ///< whether it takes the value
};

/// A key of a table, with functions that read and write its member of JobConfig.
struct Field : KeyInfo {
  std::string table;
  std::vector<ListKey> columns;  ///< keys of a list of tables; empty for other fields

  std::function<bool(const Value&, JobConfig&)>
      store;  ///< whether it takes the value; leaves the config alone if not
  std::function<Value(const JobConfig&)> load;  ///< the canonical spelling

  [[nodiscard]] std::string name() const { return table + "." + key; }
};

/// A table of the job file.
struct Table {
  std::string name;
  std::string help;
  std::vector<Field> fields;
};

/// All tables, in the order of documents.
[[nodiscard]] const std::vector<Table>& schema();

/// "train", as in a job file.
[[nodiscard]] std::string name_of(JobKind kind);
/// Its spelling in model.frozen_format.
[[nodiscard]] std::string name_of(FrozenFormat format);

/// The key "table.key", or "table.list.key" of a list of tables, by its current or an earlier name; null if
/// there is none.
[[nodiscard]] const KeyInfo* find_key(std::string_view name);
/// The rules of that key; those of a key without any if there is none.
[[nodiscard]] KeyRules rules_of(std::string_view name);

/// Null if there is no such table or key.
[[nodiscard]] const Table* find_table(std::string_view name);
[[nodiscard]] const Field* find_field(const Table& table, std::string_view key);

}  // namespace sluice
