// Translates patterns from Oniguruma's to pcre2's spelling.
#pragma once

#include <string>
#include <string_view>

namespace sluice::text {

/// The pattern for pcre2 in UTF mode, with classes of characters spelled out from the table of unicode.hpp,
/// so that both mean the same characters. Takes what published tokenizers use: literals, classes, groups,
/// alternatives, repetitions, lookahead. Error(kBadData), calling the pattern `name`, names everything else.
[[nodiscard]] std::string pcre2_pattern(std::string_view pattern, const std::string& name);

}  // namespace sluice::text
