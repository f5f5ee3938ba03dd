// The program's commands. Each has a file NAME_command.cpp in this folder with its options, its arguments and
// its function (chat in that of generate, top in that of status), and a line here and in jobs/main.cpp. Their parts,
// and options that several commands share.
#pragma once

#include "config/job_config.hpp"
#include "job/exec_compute_program.hpp"
#include "job/plan/machine.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// Words of a command line, without the program.
using Words = std::vector<std::string>;

/// The command line that is being parsed. `action` is the work of the chosen command: its result is the
/// process's exit status, its output goes to stdout, and it throws Error on failure; only `run` reports
/// failures itself, since other ranks are involved.
struct CommandLine {
  CLI::App& app;
  std::function<int()> action{};
  Words words{};  ///< all words of the command line, without the program
  /// Words of a command that the ranks of `launch` run in place of a job file.
  Words rank_command{};
  std::function<JobConfig()> rank_job{};  ///< function that makes the job of these words
};

/// A command of the program, with the arguments that its options fill.
template <class Arguments>
struct Command {
  CLI::App& app;
  Arguments& arguments;
};

/// Adds a command to `app`, the command line's own or a group, which calls run(arguments) if it is chosen.
/// Both live as long as `app`; `line` must outlive the parsing.
template <class Arguments, class Run>
Command<Arguments> add_command(CommandLine& line, CLI::App& app, const char* name, const char* help,
                               Run run) {
  CLI::App* const command = app.add_subcommand(name, help);
  const auto arguments = std::make_shared<Arguments>();
  command->callback([&line, arguments, run] { line.action = [arguments, run] { return run(*arguments); }; });
  return {*command, *arguments};
}

template <class Arguments, class Run>
Command<Arguments> add_command(CommandLine& line, const char* name, const char* help, Run run) {
  return add_command<Arguments>(line, line.app, name, help, run);
}

/// Adds an option that takes one of a few words.
template <class Value>
void add_choice(CLI::App& command, const std::string& option, Value& value,
                const std::map<std::string, Value>& words, const std::string& help) {
  std::vector<std::string> names;
  for (const auto& [name, meaning] : words) names.push_back(name);
  command
      .add_option_function<std::string>(
          option, [&value, words](const std::string& word) { value = words.at(word); }, help)
      ->check(CLI::IsMember(names));
}

/// Adds the job file, which `file` describes, and --set.
void add_job_arguments(CLI::App& command, JobArguments& arguments, const char* file = "Job file (TOML)");

CLI::Option* add_ranks(CLI::App& command, const char* option, int& ranks, const char* help);

/// Adds an option with a size such as 128.5GB.
void add_size(CLI::App& command, const std::string& option, std::optional<std::int64_t>& bytes,
              const std::string& help);
/// Adds an option with the rate of a link, such as 1Gbit, in bytes a second.
void add_link_rate(CLI::App& command, const std::string& option, std::optional<std::int64_t>& rate,
                   const std::string& help);

/// Adds the options that tell of the machines planned for. Returns the one with the number of ranks.
CLI::Option* add_machine(CLI::App& command, MachineArguments& machine);

/// Adds an option with a text that may be given several times.
CLI::Option* add_texts(CLI::App& command, const char* option, std::vector<std::string>& values,
                       const char* help);

/// Prints a command's result as JSON; bytes of paths and messages that are not UTF-8 are replaced.
void print_json(const nlohmann::json& value);

/// Message about a first word that is not a command, or "".
[[nodiscard]] std::string unknown_command(const CLI::App& app, const std::string& word);

/// Removes the command that ranks are to run from "launch ... generate SOURCE ... -- ...", without the words
/// after --, and returns it. Only its name is left in `words`, in place of a job file.
[[nodiscard]] Words take_rank_command(Words& words);

/// Lines for --version: Sluice, LibTorch, oneDNN (if used beside LibTorch), MPI, HDF5, CUDA, NCCL, and the
/// BLAS of a program that computes.
[[nodiscard]] std::string versions_text();

// Commands in the order of --help.
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
