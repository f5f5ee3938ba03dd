#include "config/expand.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace sluice {
namespace {

constexpr std::string_view kBegin = "${";

/// The value of a variable. Expanding a path that was expanded must change nothing: the run's copy of its job is read again.
ExpandedPath value_of(const std::string& name) {
  if (name.empty()) return {"", "${} names no variable"};
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0')
    return {"", fmt::format("the environment has no variable {}", printable(name))};
  if (std::string_view(value).find(kBegin) != std::string_view::npos)
    return {"", fmt::format("the variable {} holds {}, which is not expanded", printable(name),
                            printable(value))};
  return {value, ""};
}

}  // namespace

ExpandedPath expand_path(std::string_view text) {
  ExpandedPath expanded;
  if (text == "~" || text.starts_with("~/")) {
    expanded = value_of("HOME");
    if (!expanded.problem.empty()) return expanded;
    text.remove_prefix(1);
  }
  for (;;) {
    const std::size_t begin = text.find(kBegin);
    expanded.path += text.substr(0, begin);
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin + kBegin.size());
    const std::size_t end = text.find('}');
    if (end == std::string_view::npos) return {"", "${ has no } behind it"};
    const ExpandedPath value = value_of(std::string(text.substr(0, end)));
    if (!value.problem.empty()) return value;
    expanded.path += value.path;
    text.remove_prefix(end + 1);
  }
  if (expanded.path == "~" || expanded.path.starts_with("~/"))
    return {"", "a variable begins with ~, which is not expanded"};
  return expanded;
}

}  // namespace sluice
