// Matchers that need no regular expression.
#pragma once

#include "text/matching/matcher.hpp"

#include <memory>
#include <string>

namespace sluice::text {

/// Matcher that finds one text, which must not be empty.
[[nodiscard]] std::shared_ptr<const Matcher> literal_matcher(std::string text);
/// Matcher that finds single characters that are numbers: \p{N}.
[[nodiscard]] std::shared_ptr<const Matcher> digit_matcher();

}  // namespace sluice::text
