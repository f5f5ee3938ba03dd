#include "config/expand.hpp"

#include "base/text.hpp"
#include "config/toml_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kBegin = "${";

/// Value of an environment variable. It must not need expansion itself, because the run's copy of its job is
/// expanded again.
ExpandedText value_of(const std::string& name) {
  if (name.empty()) return {"", "${} names no variable"};
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0')
    return {"", fmt::format("the environment has no variable {}", printable(name))};
  if (std::string_view(value).find(kBegin) != std::string_view::npos)
    return {"", fmt::format("the variable {} holds {}, which is not expanded", printable(name),
                            printable(value))};
  return {value, ""};
}

/// Whether a text is the name of a shell variable.
bool is_name(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kOthers = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  return !text.empty() && kDigits.find(text.front()) == std::string_view::npos &&
         text.find_first_not_of(std::string(kDigits) + std::string(kOthers)) == std::string_view::npos;
}

/// Expands variables in a text. In a path every "${" must begin a variable.
ExpandedText expand(std::string_view text, bool is_path) {
  ExpandedText expanded;
  for (;;) {
    const std::size_t begin = text.find(kBegin);
    expanded.text += text.substr(0, begin);
    if (begin == std::string_view::npos) return expanded;
    text.remove_prefix(begin + kBegin.size());
    const std::size_t end = text.find('}');
    if (is_path && end == std::string_view::npos) return {"", "${ has no } behind it"};
    const std::string_view name = text.substr(0, end);
    if (!is_path && (end == std::string_view::npos || !is_name(name))) {
      expanded.text += kBegin;
      continue;
    }
    const ExpandedText value = value_of(std::string(name));
    if (!value.problem.empty()) return value;
    expanded.text += value.text;
    expanded.variables.emplace_back(name);
    text.remove_prefix(end + 1);
  }
}

/// Texts of a value: those of a list, or one text.
std::vector<std::string> texts_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return {*text};
  const auto* texts = std::get_if<std::vector<std::string>>(&value);
  return texts == nullptr ? std::vector<std::string>() : *texts;
}

}  // namespace

ExpandedText expand_path(std::string_view text) {
  std::string home;
  if (text == "~" || text.starts_with("~/")) {
    ExpandedText value = value_of("HOME");
    if (!value.problem.empty()) return value;
    home = std::move(value.text);
    text.remove_prefix(1);
  }
  ExpandedText expanded = expand(text, /*is_path=*/true);
  if (!expanded.problem.empty()) return expanded;
  if (!home.empty()) expanded.variables.emplace_back("HOME");
  expanded.text.insert(0, home);
  if (expanded.text == "~" || expanded.text.starts_with("~/"))
    return {"", "a variable begins with ~, which is not expanded"};
  return expanded;
}

ExpandedText expand_variables(std::string_view text) {
  ExpandedText expanded = expand(text, /*is_path=*/false);
  if (expanded.problem.empty() && expanded.text != text && expand(expanded.text, false).text != expanded.text)
    return {"", "what its variables hold makes another one, which is not expanded"};
  return expanded;
}

ExpandedValue expand_value(const Value& value, TextKind kind) {
  const bool is_path = kind == TextKind::kPath;
  std::vector<std::string> texts = texts_of(value), variables;
  const std::vector<std::string> written = texts;
  for (std::string& text : texts) {
    ExpandedText expanded = is_path ? expand_path(text) : expand_variables(text);
    if (!expanded.problem.empty()) return {{}, "", expanded.problem};
    text = std::move(expanded.text);
    std::ranges::move(expanded.variables, std::back_inserter(variables));
  }
  if (texts == written) return {{value}, "", "", std::move(variables)};
  const bool is_list = std::holds_alternative<std::vector<std::string>>(value);
  ExpandedValue expanded;
  expanded.variables = std::move(variables);
  expanded.readings.push_back(is_list ? Value(texts) : Value(texts.front()));
  expanded.outcome = toml_text(expanded.readings.front());
  if (!is_path)
    expanded.readings.push_back(
        typed_value(is_list ? fmt::format("[{}]", fmt::join(texts, ", ")) : texts.front()));
  return expanded;
}

}  // namespace sluice
