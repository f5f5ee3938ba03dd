// A row of JSON from another program's table, which keeps track of the keys that are used.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// A JSON object whose keys are asked for one by one. A key with null counts as absent, because tables
/// written as JSON have every column in every row; NaN and Infinity, which Python writes, count as null.
class JsonRow {
 public:
  /// JSON that keeps the file's order of keys, in which chat templates print them.
  using Json = nlohmann::ordered_json;

  /// Parses a row. Error(kBadData), in words that follow "FILE:LINE: ", for text that is not a JSON object.
  explicit JsonRow(std::string_view text);

  /// Whether a key is present and not null. Does not count as use.
  [[nodiscard]] bool has(const std::string& key) const;
  /// Whether a key holds a text. Does not count as use.
  [[nodiscard]] bool has_text(const std::string& key) const;
  /// Value at a key; null if it is absent. Does not count as use.
  [[nodiscard]] const Json& at(const std::string& key) const;
  /// Value at a key; null if it is absent. Counts as use.
  [[nodiscard]] const Json& take(const std::string& key);
  /// Text at a key. Error(kBadData) if there is none. Counts as use.
  [[nodiscard]] std::string text(const std::string& key);
  /// Keys that are not null and were not used, in the order of the row.
  [[nodiscard]] std::vector<std::string> unused() const;

 private:
  [[nodiscard]] const Json* find(const std::string& key) const;

  Json object_;
  std::vector<std::string> taken_;
};

/// The value that a text is the JSON of, read as rows are; nothing if it is the JSON of none.
[[nodiscard]] std::optional<JsonRow::Json> json_in(std::string_view text);

/// Puts in place of a text the list, object or null that it is the JSON of; other values and texts stay.
void open_text(JsonRow::Json& value);

/// Text at a key of an object. Error(kBadData), with the keys that it has, if there is none.
[[nodiscard]] std::string text_at(const JsonRow::Json& object, const std::string& key);

}  // namespace sluice::corpus
