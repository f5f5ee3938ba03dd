// Manual pages in roff's man macros, made from the description of the commands.
#pragma once

#include "job/describe/command_tree.hpp"

#include <map>
#include <string>

namespace sluice {

/// Name of a file ("sluice-tokenize.1") and its text: a page for the program and one for each of its
/// commands. A group of commands, such as checkpoint, is one page, and so is each command of it.
[[nodiscard]] std::map<std::string, std::string> manual_pages(const CommandText& program,
                                                              const std::string& version);

}  // namespace sluice
