// A value inside tokenizer.json, which knows where it stands there for its messages.
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
  /// A whole document. Error(kBadData) for what is no JSON, nested deeper than 64 levels, or no object.
  [[nodiscard]] static JsonNode parse(std::string_view text, std::string name);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const nlohmann::json& value() const { return *value_; }

  /// Whether the key is there and not null.
  [[nodiscard]] bool has(const char* key) const;
  /// Value at a key; Error(kBadData) if it is absent, or of another kind.
  [[nodiscard]] JsonNode object(const char* key) const;
  [[nodiscard]] std::vector<JsonNode> items(const char* key) const;
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] std::string text(const char* key, const std::string& otherwise) const;
  [[nodiscard]] bool boolean(const char* key, bool otherwise) const;
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t minimum, std::int64_t maximum) const;
  /// The member "type".
  [[nodiscard]] std::string type() const { return text("type"); }

  /// Error(kBadData): "<place>.<key>: found <value>, expected <expected>".
  [[noreturn]] void refuse(const char* key, std::string_view expected) const;

 private:
  JsonNode(std::shared_ptr<const nlohmann::json> value, std::string name)
      : value_(std::move(value)), name_(std::move(name)) {}
  [[nodiscard]] const nlohmann::json& required(const char* key) const;

  std::shared_ptr<const nlohmann::json> value_;  ///< shares the document
  std::string name_;
};

}  // namespace sluice::text
