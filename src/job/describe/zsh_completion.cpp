#include "job/describe/descriptions.hpp"

#include <fmt/ranges.h>

#include <string>
#include <string_view>

namespace sluice {
namespace {

/// Text escaped for a specification in single quotes, whose fields are separated by brackets and colons.
std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\'') {
      escaped += "'\\''";
      continue;
    }
    if (std::string_view("[]:\\").find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

/// Completion of an option's value: one of its words, or a file name.
std::string action(const OptionText& option) {
  return option.choices.empty() ? "_files" : fmt::format("({})", fmt::join(option.choices, " "));
}

std::string specifications(const OptionText& option) {
  if (option.names.empty())
    return fmt::format("    '{}:{}:_files' \\\n", option.repeats ? "*" : "", zsh_text(option.positional));
  std::string text;
  for (const std::string& name : option.names) {
    const std::string value =
        option.value.empty() ? "" : fmt::format(":{}:{}", zsh_text(option.value), action(option));
    text += fmt::format("    '*{}[{}]{}' \\\n", name, zsh_text(option.help), value);
  }
  return text;
}

/// Name of a command's function: "_sluice_checkpoint_ls".
std::string function_name(const CommandText& command) { return "_" + command.path("_"); }

std::string choice_of_commands(const CommandText& command) {
  std::string list, cases;
  for (const CommandText& inner : command.commands) {
    list += fmt::format("      '{}:{}'\n", inner.name(), zsh_text(inner.help));
    cases += fmt::format("      {}) {} ;;\n", inner.name(), function_name(inner));
  }
  return fmt::format(
      "    '1: :->command' '*:: :->arguments'\n  if [[ $state == command ]]; then\n    commands=(\n{}    )\n"
      "    _describe -t commands command commands\n  elif [[ $state == arguments ]]; then\n    case "
      "$words[1] in\n{}    esac\n  fi\n",
      list, cases);
}

/// Returns the completion functions of a command: those of its subcommands first, then its own.
std::string functions(const CommandText& command) {
  std::string text;
  for (const CommandText& inner : command.commands) text += functions(inner);
  text += fmt::format(
      "\n{}() {{\n  local curcontext=$curcontext state line\n  local -a commands\n  _arguments -C \\\n",
      function_name(command));
  for (const OptionText& option : command.options) text += specifications(option);
  return text + (command.commands.empty() ? "    && return 0\n" : choice_of_commands(command)) + "}\n";
}

}  // namespace

std::string zsh_completion(const CommandText& program) {
  return "#compdef sluice\n# Completion for zsh, made by `sluice describe`.\n" + functions(program) +
         "\n_sluice \"$@\"\n";
}

}  // namespace sluice
