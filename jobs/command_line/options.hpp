// Commands of the program's command line, and the options that several of them have.
#pragma once

#include "job/commands/commands.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// What the chosen subcommand will do.
using Action = std::function<int()>;
/// Of a command line, without the program.
using Words = std::vector<std::string>;

/// A command of the program, and what its options fill.
template <class Arguments>
struct Command {
  CLI::App& app;
  Arguments& arguments;
};

/// One that calls run(arguments) if it is chosen. They live as long as `app`.
template <class Arguments, class Run>
Command<Arguments> add_command(CLI::App& app, Action& action, const char* name, const char* help, Run run) {
  CLI::App* const command = app.add_subcommand(name, help);
  const auto arguments = std::make_shared<Arguments>();
  command->callback([&action, arguments, run] { action = [arguments, run] { return run(*arguments); }; });
  return {*command, *arguments};
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

/// A saved step: a number, newest or best.
void add_step(CLI::App& command, std::optional<std::int64_t>& step, const char* help);

/// A size such as 128.5GB.
void add_size(CLI::App& command, const std::string& option, std::optional<std::int64_t>& bytes,
              const std::string& help);

/// An option with a text, each time that it is given.
CLI::Option* add_texts(CLI::App& command, const char* option, std::vector<std::string>& values,
                       const char* help);

/// How tokens are chosen, and with what numbers.
void add_answer_settings(CLI::App& command, GenerateArguments& arguments);

}  // namespace sluice
