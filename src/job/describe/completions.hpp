// Shell completions, made from the description of the commands.
#pragma once

#include "job/describe/command_tree.hpp"

#include <string>

namespace sluice {

/// Script for bash-completion's folder, which loads it by the program's name. Needs only bash; completes file
/// names where an argument may be a file.
[[nodiscard]] std::string bash_completion(const CommandText& program);

/// Function for zsh's fpath, to be named _sluice.
[[nodiscard]] std::string zsh_completion(const CommandText& program);

}  // namespace sluice
