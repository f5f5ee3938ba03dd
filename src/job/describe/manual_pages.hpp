// Manual pages in roff's man macros, made from the description of the commands.
#pragma once

#include "job/describe/command_tree.hpp"

#include <map>
#include <string>

namespace sluice {

/// Manual pages by file name ("sluice-tokenize.1"): one for the program and one for each of its commands. A
/// group of commands, such as checkpoint, has a page, and so has each of its commands.
[[nodiscard]] std::map<std::string, std::string> manual_pages(const CommandText& program,
                                                              const std::string& version);

}  // namespace sluice
