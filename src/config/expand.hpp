// What a shell would put into a value of a job file: ${VARIABLE}, and ~ at the beginning of a path.
#pragma once

#include "config/domain.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct ExpandedText {
  std::string text;
  std::string problem;  ///< why there is none, or "": "the environment has no variable SCRATCH"
};

/// `text` with each ${NAME} replaced by that variable of the environment and a leading "~" or "~/" by HOME. A variable must be
/// set and not empty, and nothing that it holds is expanded in turn. "$NAME" stays as it is, and so does a "~" elsewhere.
[[nodiscard]] ExpandedText expand_path(std::string_view text);

/// The same of any other text, in which "~" means nothing, and neither does a "${" that no name and "}" follow.
[[nodiscard]] ExpandedText expand_variables(std::string_view text);

struct ExpandedValue {
  /// What the value may stand for, the likeliest first: the value; where variables were put into a text or a list of texts, the
  /// outcome, and what that is when it is read as TOML, such as the number 7 of "${SLURM_ARRAY_TASK_ID}".
  std::vector<Value> readings;
  std::string outcome;  ///< as TOML, or "" where there were no variables
  std::string problem;  ///< why there is none, or ""
};

[[nodiscard]] ExpandedValue expand_value(const Value& value, bool is_path);

}  // namespace sluice
