// Completion of command lines in shells, made from the description of the commands.
#pragma once

#include "job/describe/command_tree.hpp"

#include <string>

namespace sluice {

/// A script for bash-completion's folder of completions, which loads it by the program's name. It needs bash
/// alone, and names files where an argument may be one.
[[nodiscard]] std::string bash_completion(const CommandText& program);

/// A function for zsh's fpath, to be named _sluice there.
[[nodiscard]] std::string zsh_completion(const CommandText& program);

}  // namespace sluice
