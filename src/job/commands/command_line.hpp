// Parts of the program's commands, and options that several of them have.
#pragma once

#include "config/job_config.hpp"
#include "job/commands/job_arguments.hpp"

#include <CLI/CLI.hpp>

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

/// The command line that is being read. `action` is what the chosen command will do; its result is the
/// process's exit status, its output goes to stdout, and Error is thrown for what goes wrong; `run` alone
/// reports failures by itself, since other ranks are involved.
struct CommandLine {
  CLI::App& app;
  std::function<int()> action{};
  Words words{};                          ///< all of them
  Words rank_command{};                   ///< words that the ranks of `launch` run in place of a job file
  std::function<JobConfig()> rank_job{};  ///< the job that these words mean
};

/// A command of the program, and what its options fill.
template <class Arguments>
struct Command {
  CLI::App& app;
  Arguments& arguments;
};

/// A command in `app`, the command line's own or a group of commands, that calls run(arguments) if it is
/// chosen. Both live as long as `app`, and `line` outlives the parsing.
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

/// An option with one word of a few.
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

/// The job file, which `file` describes, and --set.
void add_job_arguments(CLI::App& command, JobArguments& arguments, const char* file = "Job file (TOML)");

CLI::Option* add_ranks(CLI::App& command, const char* option, int& ranks, const char* help);

/// A size such as 128.5GB.
void add_size(CLI::App& command, const std::string& option, std::optional<std::int64_t>& bytes,
              const std::string& help);

/// An option with a text, each time that it is given.
CLI::Option* add_texts(CLI::App& command, const char* option, std::vector<std::string>& values,
                       const char* help);

}  // namespace sluice
