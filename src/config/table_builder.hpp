// A table of the schema, put together from rows of a key, its member, its domain and its help.
#pragma once

#include "config/schema.hpp"
#include "config/table_list.hpp"

#include <optional>
#include <string>
#include <utility>

namespace sluice {

/// Builder of one table: adds each key with its member of the table's struct, allowed values, help, unit, and
/// rules if they differ from those of the table.
template <class Settings>
class TableBuilder {
 public:
  TableBuilder(std::string name, Settings JobConfig::*settings, std::string help, const KeyRules& rules = {})
      : table_{std::move(name), std::move(help), {}}, settings_(settings), rules_(rules) {}

  template <class T, class Domain>
  TableBuilder& key(const char* key, T Settings::*member, const Domain& domain, const char* help,
                    const char* unit = "") {
    Field field{key_info(key, domain, help, unit, domain.spell(JobConfig().*settings_.*member)),
                table_.name,
                {},
                {},
                {}};
    field.rules = rules_;
    if constexpr (requires { domain.columns(); }) field.columns = domain.columns();
    field.load = [domain, settings = settings_, member](const JobConfig& config) {
      return domain.spell(config.*settings.*member);
    };
    field.store = [domain, settings = settings_, member](const Value& value, JobConfig& config) {
      const std::optional<T> parsed = domain.parse(value);
      if (parsed) config.*settings.*member = *parsed;
      return parsed.has_value();
    };
    table_.fields.push_back(std::move(field));
    return *this;
  }

  /// Sets the rules of the key that was added last.
  TableBuilder& rules(const KeyRules& rules) {
    table_.fields.back().rules = rules;
    return *this;
  }

  [[nodiscard]] Table done() { return std::move(table_); }

 private:
  Table table_;
  Settings JobConfig::*settings_;
  KeyRules rules_;  ///< rules of all keys of the table
};

}  // namespace sluice
