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
  std::string problem;                   ///< fault, "the environment has no variable SCRATCH", or ""
  std::vector<std::string> variables{};  ///< names of the variables that were put in; HOME for "~"
};

/// Expands a path: each ${NAME} in `text` becomes that environment variable, and a leading "~" or "~/" HOME.
/// A variable must be set and not empty, and its value is not expanded itself. "$NAME" stays as it is, and so
/// does "~" elsewhere.
[[nodiscard]] ExpandedText expand_path(std::string_view text);

/// Expands variables in a text that is not a path: "~" stays, and so does "${" unless a name and "}" follow.
[[nodiscard]] ExpandedText expand_variables(std::string_view text);

/// Result of expanding a value.
struct ExpandedValue {
  /// Possible readings of the value, the likeliest first: the value itself; and if it is a text, or a list of
  /// texts, with variables, the expanded text, and the expanded text read as TOML, such as the number 7 for
  /// "${SLURM_ARRAY_TASK_ID}".
  std::vector<Value> readings;
  std::string outcome;                   ///< the expanded value as TOML; "" if it has no variables
  std::string problem;                   ///< fault of a variable, or ""
  std::vector<std::string> variables{};  ///< names of the variables that were put in
};

/// Whether the texts of a value are paths.
enum class TextKind : bool { kPlain, kPath };

/// Expands the variables in a value, and "~" in a path.
[[nodiscard]] ExpandedValue expand_value(const Value& value, TextKind kind);

}  // namespace sluice
