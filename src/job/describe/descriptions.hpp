// Manual pages and shell completions, made from the description of the commands.
#pragma once

#include "job/describe/command_tree.hpp"

#include <map>
#include <string>

namespace sluice {

/// Manual pages in roff's man macros, by file name ("sluice-tokenize.1"): one for the program and one for each
/// of its commands. A group of commands, such as checkpoint, has a page, and so has each of its commands.
[[nodiscard]] std::map<std::string, std::string> manual_pages(const CommandText& program,
                                                              const std::string& version);

/// Script for bash-completion's folder, which loads it by the program's name. Needs only bash; completes file
/// names where an argument may be a file.
[[nodiscard]] std::string bash_completion(const CommandText& program);

/// Function for zsh's fpath, to be named _sluice.
[[nodiscard]] std::string zsh_completion(const CommandText& program);

}  // namespace sluice
