// The list of all configuration keys. Defaults, bounds, messages, help and documentation all come from here.
#pragma once

#include "config/domain.hpp"
#include "config/job_config.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Rules of a key besides its allowed values. All ranks must agree on every key.
struct KeyRules {
  /// Whether a resumed training must keep the value, because saved numbers or the order of tokens depend on
  /// it.
  bool is_fixed = false;
  bool is_chosen_by_fit = false;  ///< whether optimizer.fit = "auto" chooses the value
  bool changes_answers = false;   ///< whether answers to prompts depend on the value
};

/// Description of a key.
struct KeyInfo {
  std::string key;
  std::string unit;       ///< unit of the number; "" for a plain count and for keys without a number
  std::string help;       ///< meaning of the key, and what a larger value costs
  std::string expected;   ///< allowed values, in words
  bool is_path = false;   ///< whether the value is a path, whose variables are expanded before it is stored
  bool required = false;  ///< whether a job must give the key, since its initial value is not allowed
  std::string initial;    ///< initial value as TOML
  KeyRules rules;
};

/// A key of the tables in a list.
struct ListKey : KeyInfo {
  std::function<bool(const Value&)> check;  ///< whether a value is allowed
};

/// A key of a table, with functions that read and write its member of JobConfig.
struct Field : KeyInfo {
  std::string table;
  std::vector<ListKey> columns;  ///< keys of a list of tables; empty for other fields

  std::function<bool(const Value&, JobConfig&)>
      store;  ///< stores a value in the config if it is allowed, and returns whether it was
  std::function<Value(const JobConfig&)> load;  ///< member's value in canonical spelling

  [[nodiscard]] std::string name() const { return table + "." + key; }
};

/// A table of the job file.
struct Table {
  std::string name;
  std::string help;
  std::vector<Field> fields;
};

/// All tables of the job file, in the order of documents.
[[nodiscard]] const std::vector<Table>& schema();

/// Name of a job kind in a job file: "train".
[[nodiscard]] std::string name_of(JobKind kind);
/// Name of a format in model.frozen_format.
[[nodiscard]] std::string name_of(FrozenFormat format);
/// Name of a kind of distribution in job files: "top".
[[nodiscard]] std::string name_of(ScoreDistribution distribution);

/// The key "table.key", or "table.list.key" of a list of tables, by its current or an earlier name; null if
/// there is none.
[[nodiscard]] const KeyInfo* find_key(std::string_view name);
/// Rules of the key "table.key"; of an unknown key the default rules.
[[nodiscard]] KeyRules rules_of(std::string_view name);

/// Table of this name; null if there is none. Key of a table; null if there is none.
[[nodiscard]] const Table* find_table(std::string_view name);
[[nodiscard]] const Field* find_field(const Table& table, std::string_view key);

}  // namespace sluice
