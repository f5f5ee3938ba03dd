// A key that holds a list of tables, such as [[data.source]]: the domain of a vector of structs.
#pragma once

#include "config/domain.hpp"
#include "config/schema.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// Fills in a key's description from its domain; `initial` is the spelling of the member's initial value.
template <class Domain>
[[nodiscard]] KeyInfo key_info(const char* key, const Domain& domain, const char* help, const char* unit,
                               const Value& initial) {
  return {.key = key,
          .unit = unit,
          .help = help,
          .expected = domain.expected(),
          .is_path = std::is_same_v<Domain, Path>,
          .required = !domain.parse(initial),
          .initial = toml_text(initial),
          .rules = {}};
}

/// Domain of a list of tables of type Row; the list may be empty.
template <class Row>
class TableList {
 public:
  template <class T, class Domain>
  TableList& column(const char* key, T Row::*member, const Domain& domain, const char* help,
                    const char* unit = "") {
    ListKey column{key_info(key, domain, help, unit, domain.spell(Row{}.*member)), {}};
    column.check = [domain](const Value& value) { return domain.parse(value).has_value(); };
    columns_.push_back(std::move(column));
    stores_.push_back([domain, member](const Value& value, Row& row) {
      const std::optional<T> parsed = domain.parse(value);
      if (parsed) row.*member = *parsed;
      return parsed.has_value();
    });
    loads_.push_back([domain, member](const Row& row) { return domain.spell(row.*member); });
    return *this;
  }

  /// Sets the rules of the column that was added last.
  TableList& rules(const KeyRules& rules) {
    columns_.back().rules = rules;
    return *this;
  }

  [[nodiscard]] std::optional<std::vector<Row>> parse(const Value& value) const {
    const auto* numbers = std::get_if<std::vector<double>>(&value);
    // An empty TOML array, which has no kind.
    if (numbers != nullptr && numbers->empty()) return std::vector<Row>();
    const auto* rows = std::get_if<Rows>(&value);
    if (rows == nullptr) return {};
    std::vector<Row> out;
    for (const std::vector<Cell>& cells : *rows) {
      Row row;
      if (!store(cells, row)) return {};
      out.push_back(std::move(row));
    }
    return out;
  }

  [[nodiscard]] Value spell(const std::vector<Row>& rows) const {
    Rows out;
    for (const Row& row : rows) {
      std::vector<Cell>& cells = out.emplace_back();
      for (std::size_t i = 0; i < columns_.size(); ++i) cells.push_back({columns_[i].key, loads_[i](row)});
    }
    return out;
  }

  [[nodiscard]] std::string expected() const {
    std::string keys;
    for (const ListKey& column : columns_) keys += (keys.empty() ? "" : ", ") + column.key;
    return "a list of tables with the keys " + keys;
  }
  [[nodiscard]] const std::vector<ListKey>& columns() const { return columns_; }

 private:
  [[nodiscard]] bool store(const std::vector<Cell>& cells, Row& row) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto cell = std::ranges::find(cells, columns_[i].key, &Cell::key);
      if (cell == cells.end() ? columns_[i].required : !stores_[i](cell->value, row)) return false;
    }
    return true;
  }

  std::vector<ListKey> columns_;
  std::vector<std::function<bool(const Value&, Row&)>>
      stores_;  ///< function that sets the member of each column, in the order of loads_
  std::vector<std::function<Value(const Row&)>> loads_;
};

}  // namespace sluice
