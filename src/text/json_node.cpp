#include "text/json_node.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_object.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace sluice::text {

using nlohmann::json;

JsonNode JsonNode::parse(std::string_view text, std::string name) {
  auto document = std::make_shared<const json>(parse_json_object(text, name + ": "));
  return {std::move(document), std::move(name)};
}

bool JsonNode::has(const char* key) const {
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

const json& JsonNode::required(const char* key) const {
  if (!has(key)) refuse(key, "a value");
  return (*value_)[key];
}

void JsonNode::refuse(const char* key, std::string_view expected) const {
  const std::string found =
      value_->is_object() && value_->contains(key) ? shown_json((*value_)[key]) : "nothing";
  fail({ExitCode::kBadData, "text.tokenizer"}, "{}: {}: found {}, expected {}", name_, key, found, expected);
}

JsonNode JsonNode::object(const char* key) const {
  const json& value = required(key);
  if (!value.is_object()) refuse(key, "an object");
  return {std::shared_ptr<const json>(value_, &value), fmt::format("{}: {}", name_, key)};
}

std::vector<JsonNode> JsonNode::items(const char* key) const {
  const json& list = required(key);
  if (!list.is_array()) refuse(key, "a list of objects");
  std::vector<JsonNode> out;
  for (const json& item : list) {
    if (!item.is_object()) refuse(key, "a list of objects");
    out.push_back(
        {std::shared_ptr<const json>(value_, &item), fmt::format("{}: {}[{}]", name_, key, out.size())});
  }
  return out;
}

std::string JsonNode::text(const char* key) const {
  const json& value = required(key);
  if (!value.is_string()) refuse(key, "a text");
  return value.get<std::string>();
}

std::string JsonNode::text(const char* key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

bool JsonNode::boolean(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const json& value = required(key);
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

std::int64_t JsonNode::integer(const char* key, std::int64_t minimum, std::int64_t maximum) const {
  const json& value = required(key);
  const bool is_whole =
      value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  if (!is_whole || value.get<std::int64_t>() < minimum || value.get<std::int64_t>() > maximum)
    refuse(key, fmt::format("a whole number from {} to {}", minimum, maximum));
  return value.get<std::int64_t>();
}

}  // namespace sluice::text
