// Commands of the program and their options as plain data, taken from the command line that parses them, so
// that --help, manual pages and shell completions have one description.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace sluice {

struct OptionText {
  /// Names of the option, "-o", "--output"; empty for a positional argument.
  std::vector<std::string> names;
  std::string positional;            ///< name of a positional argument, or ""
  std::string value;                 ///< kind of the option's value, such as TEXT or INT; "" for a flag
  std::vector<std::string> choices;  ///< allowed words, if the option takes only these
  std::string help;
  bool required = false;
  bool repeats = false;  ///< whether the option takes any number of values

  /// Heading of the option in --help: "-o,--output TEXT", or "inputs..." for a positional argument.
  [[nodiscard]] std::string heading() const;
};

struct CommandText {
  std::vector<std::string> words;  ///< words of the command: "sluice", "checkpoint", "ls"
  std::string help;
  std::string footer;  ///< text that --help prints below the options, or ""
  std::vector<OptionText> options;
  std::vector<CommandText> commands;

  [[nodiscard]] const std::string& name() const { return words.back(); }
  /// Words of the command, joined by `between`: "sluice checkpoint ls".
  [[nodiscard]] std::string path(const std::string& between) const;
};

/// Commands and options in the order of --help. Commands that --help hides are left out.
[[nodiscard]] CommandText command_tree(const CLI::App& app);

}  // namespace sluice
