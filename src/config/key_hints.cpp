#include "config/key_hints.hpp"

#include "base/text.hpp"
#include "config/familiar_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

/// Hint with the nearest name, "did you mean "optimizer"?", or with all names if none is near.
std::string near_or_all(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  if (!near.empty()) return fmt::format("did you mean \"{}\"?", near);
  return "expected " + quoted_list(std::vector<std::string_view>(names.begin(), names.end()));
}

/// Whether a key of the table is meant by another form of its word, "step" for "steps" or "keepevery" for
/// "keep_every": then it is meant before a key of that spelling in another table.
bool is_same_word(const std::string& key, const std::string& written) {
  const auto word = [](std::string text) {
    std::erase_if(text, [](char letter) { return letter == '_' || letter == '-'; });
    std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
    if (text.ends_with('s')) text.pop_back();
    return text;
  };
  return !key.empty() && word(key) == word(written);
}

/// Hint for a name of another trainer or a key of another table of ours; else "".
std::string hint_of_any_table(const std::string& key) {
  if (const std::string_view hint = familiar_key_hint(key); !hint.empty()) return std::string(hint);
  for (const Table& table : schema())
    if (find_field(table, key) != nullptr) return fmt::format("did you mean {}.{}?", table.name, key);
  return "";
}

}  // namespace

std::string table_hint(const std::string& name) {
  if (const std::string_view hint = familiar_table_hint(name); !hint.empty()) return std::string(hint);
  std::vector<std::string> names;
  for (const Table& table : schema()) names.push_back(table.name);
  return near_or_all(name, names);
}

std::string key_hint(const Table& table, const std::string& key) {
  std::vector<std::string> keys;
  for (const Field& field : table.fields) keys.push_back(field.key);
  const std::string near = nearest(key, keys);
  if (is_same_word(near, key)) return near_or_all(key, keys);
  if (std::string hint = hint_of_any_table(key); !hint.empty()) return hint;
  return near_or_all(key, keys);
}

std::string hint_outside_tables(const std::string& key) {
  const std::string hint = hint_of_any_table(key);
  return hint.empty() ? table_hint(key) : hint;
}

std::string column_hint(const Field& field, const std::string& key) {
  std::vector<std::string> keys;
  for (const ListKey& column : field.columns) keys.push_back(column.key);
  return near_or_all(key, keys);
}

}  // namespace sluice
