// Patterns of tensor names in job files.
#pragma once

#include <string_view>

namespace sluice {

/// Whether `pattern` matches the whole `name`; `*` matches any characters, and `?` one.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace sluice
