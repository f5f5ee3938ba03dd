// The commands of the program and their options as plain data, taken from the command line that reads them:
// --help, manual pages and completions of shells have one description.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace sluice {

struct OptionText {
  std::vector<std::string> names;    ///< "-o", "--output"; none of a positional argument
  std::string positional;            ///< name of a positional argument, or ""
  std::string value;                 ///< kind of its value, such as TEXT or INT; "" for a flag
  std::vector<std::string> choices;  ///< the words that it takes, if it takes only these
  std::string help;
  bool required = false;
  bool repeats = false;  ///< takes any number of values

  /// "-o,--output TEXT", or of a positional argument "inputs...", as --help heads it.
  [[nodiscard]] std::string heading() const;
};

struct CommandText {
  std::vector<std::string> words;  ///< "sluice", "checkpoint", "ls"
  std::string help;
  std::string footer;  ///< text that --help prints below the options, or ""
  std::vector<OptionText> options;
  std::vector<CommandText> commands;

  [[nodiscard]] const std::string& name() const { return words.back(); }
  /// The words with `between` in between: "sluice checkpoint ls".
  [[nodiscard]] std::string path(const std::string& between) const;
};

/// Commands and options in the order of --help. Commands that --help does not list are left out.
[[nodiscard]] CommandText command_tree(const CLI::App& app);

}  // namespace sluice
