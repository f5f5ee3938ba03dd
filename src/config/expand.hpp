// What a shell would put into a path: ${VARIABLE}, and ~ at its beginning.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

struct ExpandedPath {
  std::string path;
  std::string problem;  ///< why there is none, or "": "the environment has no variable SCRATCH"
};

/// `text` with each ${NAME} replaced by that variable of the environment and a leading "~" or "~/" by HOME. A variable must be
/// set and not empty, and nothing that it holds is expanded in turn. "$NAME" stays as it is, and so does a "~" elsewhere.
[[nodiscard]] ExpandedPath expand_path(std::string_view text);

}  // namespace sluice
