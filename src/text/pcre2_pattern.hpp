// Oniguruma's spelling of a pattern in pcre2's.
#pragma once

#include <string>
#include <string_view>

namespace sluice::text {

/// The same pattern for pcre2 in UTF mode, with classes of characters spelled out from the table of unicode.hpp, so
/// that both mean the same characters. Takes what tokenizers are published with: literals, classes, groups,
/// alternatives, repetitions, looking ahead. Error(kBadData), calling the pattern `name`, for everything else, by name.
[[nodiscard]] std::string pcre2_pattern(std::string_view pattern, const std::string& name);

}  // namespace sluice::text
