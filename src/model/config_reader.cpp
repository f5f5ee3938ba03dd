#include "model/config_reader.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_object.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace sluice {

using nlohmann::json;

ConfigReader::ConfigReader(std::shared_ptr<const json> document, std::string name, AskedKeys asked,
                           Nulls nulls)
    : object_(std::move(document)), name_(std::move(name)), asked_(std::move(asked)), nulls_(nulls) {}

ConfigReader ConfigReader::parse(std::string_view text, std::string name) {
  auto document = std::make_shared<json>(parse_json_object(text, name + ": "));
  return {std::move(document), std::move(name), std::make_shared<AskedKeys::element_type>(), Nulls::kAbsent};
}

ConfigReader ConfigReader::with(Nulls nulls) const { return {object_, name_, asked_, nulls}; }

const char* ConfigReader::present(Keys keys) const {
  const char* first = nullptr;
  for (const char* key : keys)
    if (has(key) && first == nullptr) first = key;
  return first;
}

const char* ConfigReader::present_value(Keys keys, std::string_view expected) const {
  if (nulls_ == Nulls::kRefused)
    for (const char* key : keys)
      if (is_null(key)) refuse(key, fmt::format("{}, or no such key", expected));
  return present(keys);
}

const char* ConfigReader::required(Keys keys, std::string_view expected) const {
  if (const char* key = present_value(keys, expected)) return key;
  fail({ExitCode::kBadData, "model.config_value"},
       "{}: key '{}' is missing; take config.json as the model was published", name_, *keys.begin());
}

bool ConfigReader::has(const char* key) const {
  asked_->emplace(key);
  const auto found = object_->find(key);
  return found != object_->end() && !found->is_null();
}

bool ConfigReader::is_null(const char* key) const { return !has(key) && object_->contains(key); }

std::vector<std::string> ConfigReader::unasked_keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_->items())
    if (!asked_->contains(key)) keys.push_back(key);
  return keys;
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_->items()) keys.push_back(key);
  return keys;
}

bool ConfigReader::holds_text(const char* key) const { return has(key) && (*object_)[key].is_string(); }

bool ConfigReader::holds_list(const char* key) const { return has(key) && (*object_)[key].is_array(); }

bool ConfigReader::is_empty() const { return object_->empty(); }

bool ConfigReader::holds_objects() const { return std::ranges::any_of(*object_, &json::is_object); }

void ConfigReader::refuse(const char* key, std::string_view expected) const {
  const std::string found = object_->contains(key) ? shown_json((*object_)[key]) : "nothing";
  fail({ExitCode::kBadData, "model.config_value"}, "{}: {}: found {}, expected {}", name_, key, found,
       expected);
}

std::int64_t ConfigReader::integer(Keys keys, std::optional<std::int64_t> otherwise, std::int64_t minimum,
                                   std::int64_t maximum) const {
  if (otherwise && !present_value(keys, "an integer")) return *otherwise;
  const char* key = required(keys, "an integer");
  const json& value = (*object_)[key];
  const bool fits =
      value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  if (!fits || value.get<std::int64_t>() < minimum || value.get<std::int64_t>() > maximum)
    refuse(key, fmt::format("an integer from {} to {}", minimum, maximum));
  return value.get<std::int64_t>();
}

double ConfigReader::number(Keys keys, std::optional<double> otherwise) const {
  if (otherwise && !present_value(keys, "a number")) return *otherwise;
  const char* key = required(keys, "a number");
  const json& value = (*object_)[key];
  if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key, "a number");
  return value.get<double>();
}

double ConfigReader::positive(Keys keys, std::optional<double> otherwise) const {
  const double value = number(keys, otherwise);
  if (value <= 0) refuse(required(keys, "a number above 0"), "a number above 0");
  return value;
}

bool ConfigReader::boolean(Keys keys, bool otherwise) const {
  const char* key = present_value(keys, "true or false");
  if (!key) return otherwise;
  if (!(*object_)[key].is_boolean()) refuse(key, "true or false");
  return (*object_)[key].get<bool>();
}

std::string ConfigReader::text(Keys keys, std::optional<std::string> otherwise) const {
  if (otherwise && !present_value(keys, "a text")) return *otherwise;
  const char* key = required(keys, "a text");
  if (!(*object_)[key].is_string()) refuse(key, "a text");
  return (*object_)[key].get<std::string>();
}

std::optional<std::pair<double, double>> ConfigReader::limits(const char* key) const {
  if (!contains(key)) return std::nullopt;
  constexpr const char* kExpected = "a list of two numbers, the first at most the second";
  const json& items = (*object_)[key];
  if (!items.is_array() || items.size() != 2) refuse(key, kExpected);
  const auto limit = [&](const json& value) {
    if (value.is_object() && value.value("__float__", "") == "Infinity")
      return std::numeric_limits<double>::infinity();
    if (!value.is_number()) refuse(key, kExpected);
    return value.get<double>();
  };
  const std::pair<double, double> found{limit(items[0]), limit(items[1])};
  if (!(found.first <= found.second)) refuse(key, kExpected);
  return found;
}

std::vector<std::int64_t> ConfigReader::integers(Keys keys) const {
  return list<std::int64_t>(keys, &json::is_number_integer, "a list of integers");
}

std::vector<double> ConfigReader::numbers(Keys keys, std::optional<double> null) const {
  return list<double>(keys, &json::is_number, "a list of numbers", null);
}

std::vector<std::string> ConfigReader::texts(Keys keys) const {
  return list<std::string>(keys, &json::is_string, "a list of texts");
}

template <class T>
std::vector<T> ConfigReader::list(Keys keys, bool (json::*fits)() const noexcept, std::string_view expected,
                                  std::optional<T> null) const {
  const char* key = present(keys);
  if (!key) return {};
  std::vector<T> out;
  const json& items = (*object_)[key];
  if (!items.is_array()) refuse(key, expected);
  for (const json& item : items) {
    const bool is_default = null && item.is_null();
    if (!is_default && !(item.*fits)()) refuse(key, expected);
    out.push_back(is_default ? *null : item.get<T>());
  }
  return out;
}

std::optional<ConfigReader> ConfigReader::object(Keys keys) const {
  const char* key = present(keys);
  if (!key) return std::nullopt;
  const json& value = (*object_)[key];
  if (!value.is_object()) refuse(key, "an object");
  return ConfigReader(std::shared_ptr<const json>(object_, &value), fmt::format("{}: {}", name_, key), asked_,
                      nulls_);
}

std::vector<ConfigReader> ConfigReader::objects() const {
  std::vector<ConfigReader> found;
  for (const auto& [key, value] : object_->items())
    if (value.is_object())
      found.push_back(ConfigReader(std::shared_ptr<const json>(object_, &value),
                                   fmt::format("{}: {}", name_, key), asked_, nulls_));
  return found;
}

std::vector<ConfigReader> ConfigReader::object_list(const char* key) const {
  std::vector<ConfigReader> found;
  if (!has(key)) return found;
  if (!holds_list(key)) refuse(key, "a list of objects");
  for (const json& item : (*object_)[key]) {
    if (!item.is_object()) refuse(key, "a list of objects");
    found.push_back(ConfigReader(std::shared_ptr<const json>(object_, &item),
                                 fmt::format("{}: {}[{}]", name_, key, found.size()), asked_, nulls_));
  }
  return found;
}

}  // namespace sluice
