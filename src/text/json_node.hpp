// A value in tokenizer.json that knows its place, for messages.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::text {

/// A value of a JSON document with its place, for messages that name it.
class JsonNode {
 public:
  /// Parses a document. Error(kBadData) if it is not JSON, nested deeper than 64 levels, or not an object.
  [[nodiscard]] static JsonNode parse(std::string_view text, std::string name);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const nlohmann::json& value() const { return *value_; }

  /// Whether a key is present and not null.
  [[nodiscard]] bool has(const char* key) const;
  /// Value at a key; Error(kBadData) if it is missing or of another kind.
  [[nodiscard]] JsonNode object(const char* key) const;
  [[nodiscard]] std::vector<JsonNode> items(const char* key) const;
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] std::string text(const char* key, const std::string& otherwise) const;
  [[nodiscard]] bool boolean(const char* key, bool otherwise) const;
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t minimum, std::int64_t maximum) const;
  /// Value of the key "type".
  [[nodiscard]] std::string type() const { return text("type"); }

  /// Throws Error(kBadData): "<place>.<key>: found <value>, expected <expected>".
  [[noreturn]] void refuse(const char* key, std::string_view expected) const;

 private:
  JsonNode(std::shared_ptr<const nlohmann::json> value, std::string name)
      : value_(std::move(value)), name_(std::move(name)) {}
  [[nodiscard]] const nlohmann::json& required(const char* key) const;

  std::shared_ptr<const nlohmann::json> value_;  ///< value, which shares the document
  std::string name_;
};

}  // namespace sluice::text
