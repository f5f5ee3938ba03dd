// Patterns of tensor names, as a job file has them.
#pragma once

#include <string_view>

namespace sluice {

/// Whether all of `name` is as `pattern` says, in which `*` stands for any characters and `?` for one.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace sluice
