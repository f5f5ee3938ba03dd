// Matchers that need no pattern.
#pragma once

#include "text/matcher.hpp"

#include <memory>
#include <string>

namespace sluice::text {

/// Finds one text, which is not empty.
[[nodiscard]] std::shared_ptr<const Matcher> literal_matcher(std::string text);
/// Finds single characters that are numbers: \p{N}.
[[nodiscard]] std::shared_ptr<const Matcher> digit_matcher();

}  // namespace sluice::text
