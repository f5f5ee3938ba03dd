// Words of a command line, before they are parsed.
#pragma once

#include "job/commands/commands.hpp"

#include <string>

namespace sluice {

/// Message about a first word that is not a command, or "".
[[nodiscard]] std::string unknown_command(const CLI::App& app, const std::string& word);

/// Removes the command that ranks are to run from "launch ... generate SOURCE ... -- ...", without the words
/// after --, and returns it. Only its name is left in `words`, in place of a job file.
[[nodiscard]] Words take_rank_command(Words& words);

}  // namespace sluice
