#include "job/describe/descriptions.hpp"

#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr const char* kHead = R"(# Completion for bash, made by `sluice describe`.
_sluice() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=sluice word words=
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$command $word" in
)";

constexpr const char* kAfterCommands = R"( command+=" $word" ;;
    esac
  done
  case "$command $previous" in
)";

constexpr const char* kAfterChoices = R"(  esac
  [[ $words ]] || case "$command" in
)";

/// End of the script: without a matching word readline completes file names.
constexpr const char* kTail = R"(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _sluice sluice
)";

void add_paths(std::vector<std::string>& paths, const CommandText& command) {
  for (const CommandText& inner : command.commands) {
    paths.push_back('"' + inner.path(" ") + '"');
    add_paths(paths, inner);
  }
}

/// Cases of options that take one of a few words.
std::string choice_cases(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options)
    for (const std::string& name : option.names)
      if (!option.choices.empty())
        text += fmt::format("    \"{} {}\") words=\"{}\" ;;\n", command.path(" "), name,
                            fmt::join(option.choices, " "));
  for (const CommandText& inner : command.commands) text += choice_cases(inner);
  return text;
}

/// Cases of commands and options, for places where no option's value is expected.
std::string word_cases(const CommandText& command) {
  std::vector<std::string> options, commands;
  for (const OptionText& option : command.options)
    options.insert(options.end(), option.names.begin(), option.names.end());
  for (const CommandText& inner : command.commands) commands.push_back(inner.name());
  std::string text =
      fmt::format("    \"{}\")\n      if [[ $current == -* ]]; then words=\"{}\"; else words=\"{}\"; fi ;;\n",
                  command.path(" "), fmt::join(options, " "), fmt::join(commands, " "));
  for (const CommandText& inner : command.commands) text += word_cases(inner);
  return text;
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::vector<std::string> paths;
  add_paths(paths, program);
  return fmt::format("{}      {}){}{}{}", kHead, fmt::join(paths, "|"), kAfterCommands, choice_cases(program),
                     kAfterChoices) +
         word_cases(program) + kTail;
}

}  // namespace sluice
