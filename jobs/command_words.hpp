// The words of a command line, before they are parsed.
#pragma once

#include "job/commands/commands.hpp"

#include <string>

namespace sluice {

/// Message about a first word that is no command, or "".
[[nodiscard]] std::string unknown_command(const CLI::App& app, const std::string& word);

/// Takes the words of the command that ranks are to run from "launch ... generate SOURCE ... -- ...", without
/// those after --. Only the name is left of them in `words`, in place of a job file.
[[nodiscard]] Words take_rank_command(Words& words);

}  // namespace sluice
