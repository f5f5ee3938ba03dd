// The program's commands, in the order of --help. Each has a file NAME_command.cpp in this folder with its
// options, its arguments and its function, and a line here and in jobs/main.cpp.
#pragma once

#include "job/commands/command_line.hpp"

namespace sluice {

void add_run(CommandLine& line);
void add_launch(CommandLine& line);
void add_check(CommandLine& line);
void add_plan(CommandLine& line);
void add_submit(CommandLine& line);
void add_requeue(CommandLine& line);
void add_inspect(CommandLine& line);
void add_synthesize(CommandLine& line);
void add_verify(CommandLine& line);
void add_tokenize(CommandLine& line);
void add_generate(CommandLine& line);
void add_chat(CommandLine& line);
void add_status(CommandLine& line);
void add_top(CommandLine& line);
void add_report(CommandLine& line);
void add_checkpoint(CommandLine& line);
void add_metrics(CommandLine& line);
void add_trace(CommandLine& line);
void add_host_commands(CommandLine& line);
void add_describe(CommandLine& line);

}  // namespace sluice
