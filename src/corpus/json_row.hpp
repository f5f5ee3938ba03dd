// A row of somebody else's table as JSON: which keys it has, and which of them nobody has asked for.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sluice::corpus {

/// An object whose keys are asked for one by one. A key that is null is absent, as tables that are written as
/// JSON have every column in every row; NaN and Infinity, which Python writes, are null.
class JsonRow {
 public:
  using Json = nlohmann::ordered_json;  ///< objects keep the file's order, in which chat templates print them

  /// Error(kBadData), in words that follow "FILE:LINE: ", for text that is no JSON object.
  explicit JsonRow(std::string_view text);

  /// Whether the key is there and not null. Does not count as asking for it.
  [[nodiscard]] bool has(const std::string& key) const;
  /// Whether the key holds a text, or a list. Neither counts as asking for it.
  [[nodiscard]] bool has_text(const std::string& key) const;
  [[nodiscard]] bool has_list(const std::string& key) const;
  /// Value at a key; null if it is absent.
  [[nodiscard]] const Json& take(const std::string& key);
  /// The text at a key. Error(kBadData) if there is none.
  [[nodiscard]] std::string text(const std::string& key);
  /// Keys that are not null and were not asked for, in the order of the row.
  [[nodiscard]] std::vector<std::string> unused() const;

 private:
  [[nodiscard]] const Json* find(const std::string& key) const;

  Json object_;
  std::vector<std::string> taken_;
};

/// The text at a key of any object. Error(kBadData), which lists the keys that it has, if there is none.
[[nodiscard]] std::string text_at(const JsonRow::Json& object, const std::string& key);

}  // namespace sluice::corpus
