// Expansion of values of a job file as a shell does it: ${VARIABLE}, and ~ at the beginning of a path.
#pragma once

#include "config/domain.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Result of expanding a text.
struct ExpandedText {
  std::string text;
  std::string problem;  ///< fault, "the environment has no variable SCRATCH", or ""
};

/// `text` with each ${NAME} replaced by that variable of the environment and a leading "~" or "~/" by HOME. A
/// variable must be set and not empty, and nothing that it holds is expanded in turn. "$NAME" stays as it is,
/// and so does a "~" elsewhere.
[[nodiscard]] ExpandedText expand_path(std::string_view text);

/// Expands variables in a text that is no path: "~" means nothing there, and neither does a "${" that no name
/// and "}" follow.
[[nodiscard]] ExpandedText expand_variables(std::string_view text);

/// Result of expanding a value.
struct ExpandedValue {
  /// Readings of the value, the likeliest first: the value itself; where variables were put into a text or a
  /// list of texts, the outcome, and the outcome read as TOML, such as the number 7 of
  /// "${SLURM_ARRAY_TASK_ID}".
  std::vector<Value> readings;
  std::string outcome;  ///< the expanded value as TOML; "" where there were no variables
  std::string problem;  ///< fault, or ""
};

/// What the texts of a value are.
enum class TextKind : bool { kPlain, kPath };

/// Expands the variables in a value, and "~" in a path.
[[nodiscard]] ExpandedValue expand_value(const Value& value, TextKind kind);

}  // namespace sluice
