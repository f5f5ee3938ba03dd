#include "corpus/json_row.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/json_object.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::corpus {
namespace {

using Json = JsonRow::Json;

/// Replaces NaN and Infinity, as Python writes missing numbers, by null.
void take_nan_for_null(Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) value = nullptr;
  if (value.is_structured())
    for (Json& item : value) take_nan_for_null(item);
}

}  // namespace

std::optional<Json> json_in(std::string_view text) try {
  Json value = parse_json<Json>(text, "");
  take_nan_for_null(value);
  return value;
} catch (const Error&) {
  return std::nullopt;
}

void open_text(Json& value) {
  if (!value.is_string()) return;
  std::optional<Json> held = json_in(value.get_ref<const std::string&>());
  if (held && (held->is_structured() || held->is_null())) value = std::move(*held);
}

std::string text_at(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) {
    std::vector<std::string> keys;
    for (const auto& [name, value] : object.items())
      if (!value.is_null()) keys.push_back(name);
    fail({ExitCode::kBadData, "corpus.row"}, "has no key '{}'; it has: {}", key,
         keys.empty() ? "none" : printable(join_some(keys)));
  }
  if (!found->is_string())
    fail({ExitCode::kBadData, "corpus.row"}, "'{}' is a JSON {}, expected a text", key, found->type_name());
  return found->get<std::string>();
}

JsonRow::JsonRow(std::string_view text) : object_(parse_json_object<Json>(text, "")) {
  take_nan_for_null(object_);
}

const Json* JsonRow::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonRow::has(const std::string& key) const { return find(key) != nullptr; }

bool JsonRow::has_text(const std::string& key) const {
  const Json* const found = find(key);
  return found != nullptr && found->is_string();
}

const Json& JsonRow::at(const std::string& key) const {
  static const Json absent;
  const Json* const found = find(key);
  return found == nullptr ? absent : *found;
}

const Json& JsonRow::take(const std::string& key) {
  if (has(key)) taken_.push_back(key);
  return at(key);
}

std::string JsonRow::text(const std::string& key) {
  static_cast<void>(take(key));
  return text_at(object_, key);
}

std::vector<std::string> JsonRow::unused() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items())
    if (!value.is_null() && std::ranges::find(taken_, key) == taken_.end()) keys.push_back(key);
  return keys;
}

}  // namespace sluice::corpus
