// The commands of the command line. Each sets `action`, which must outlive the parsing, if it is chosen.
#pragma once

#include "options.hpp"

namespace sluice {

/// Those that are given a job file. `rank_command`: what launch starts in place of a job, if it is not empty.
void add_job_commands(CLI::App& app, Action& action, const Words& rank_command);
/// Those that are given a model. `words`: of the command that generates, if one does.
void add_model_commands(CLI::App& app, Action& action, const Words& words);
/// Those that are given a run.
void add_run_commands(CLI::App& app, Action& action);

}  // namespace sluice
