#include "model/module_patterns.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <regex>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kExpression = "re:";

using Found = std::match_results<std::string_view::const_iterator>;

bool begins_with_match(std::string_view name, const std::regex& pattern) {
  Found found;
  return std::regex_search(name.begin(), name.end(), found, pattern, std::regex_constants::match_continuous);
}

bool is_border(std::string_view name, std::size_t at) {
  return at == name.size() || name[at] == '.' || (at > 0 && name[at - 1] == '.');
}

/// Whether the pattern is the beginning of the name up to a border between its parts. Published lists have
/// hundreds of plain names, which are compared as text.
bool begins_with_parts(std::string_view name, const std::string& pattern) {
  constexpr std::string_view kSpecial = "^$\\*+?()[]{}|";
  if (pattern.find_first_of(kSpecial) == std::string::npos)
    return name.starts_with(pattern) && is_border(name, pattern.size());
  const std::regex expression(pattern);
  for (std::size_t end = 0; end <= name.size(); ++end)
    if (is_border(name, end) &&
        std::regex_match(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(end), expression))
      return true;
  return false;
}

}  // namespace

bool ModulePatterns::fits(const std::string& pattern, std::string_view module) const {
  if (rule == Rule::kGlobs) return fnmatch(pattern.c_str(), std::string(module).c_str(), 0) == 0;
  if (rule == Rule::kNames && !is_expression(pattern)) return pattern == module;
  try {
    if (rule == Rule::kParts) return module.ends_with(pattern) || begins_with_parts(module, pattern);
    return begins_with_match(module, std::regex(pattern.substr(kExpression.size())));
  } catch (const std::regex_error&) {
    fail(ExitCode::kBadData, "{}: found \"{}\", expected names of modules or regular expressions", name,
         printable(pattern));
  }
}

bool ModulePatterns::contain(std::string_view module) const {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return fits(pattern, module); });
}

std::optional<std::string> ModulePatterns::match(std::string_view module) const {
  const auto order = [](const std::string& pattern) { return std::pair(is_expression(pattern), pattern); };
  std::optional<std::string> best;
  for (const std::string& pattern : patterns)
    if (fits(pattern, module) && (!best || order(pattern) < order(*best))) best = pattern;
  return best;
}

bool ModulePatterns::is_expression(std::string_view pattern) { return pattern.starts_with(kExpression); }

std::string_view module_of(std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

}  // namespace sluice
