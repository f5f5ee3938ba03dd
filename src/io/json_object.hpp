// A JSON object from somebody else's text.
#pragma once

#include "base/error.hpp"
#include "base/text.hpp"

#include <nlohmann/json.hpp>

#include <string_view>

namespace sluice {

/// What prints and frees a value recurses once a level.
inline constexpr int kMaxJsonDepth = 64;

/// `prefix` begins the message of an error, "config.json: ". Error(kBadData) if the text is no JSON, no object or nested
/// deeper than kMaxJsonDepth.
template <class Json = nlohmann::json>
[[nodiscard]] Json parse_json_object(std::string_view text, std::string_view prefix) {
  const auto limit_depth = [&](int depth, typename Json::parse_event_t, const Json&) {
    if (depth > kMaxJsonDepth)
      fail(ExitCode::kBadData, "{}found values nested deeper than {} levels", prefix, kMaxJsonDepth);
    return true;
  };
  try {
    Json document = Json::parse(text, limit_depth);
    if (!document.is_object())
      fail(ExitCode::kBadData, "{}found a JSON {}, expected an object", prefix, document.type_name());
    return document;
  } catch (const typename Json::exception& e) {
    fail(ExitCode::kBadData, "{}is not valid JSON ({}); was the file cut short?", prefix,
         printable(e.what(), 200));
  }
}

}  // namespace sluice
