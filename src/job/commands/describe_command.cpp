#include "base/error.hpp"
#include "base/version.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "job/commands/commands.hpp"

#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct DescribeArguments {
  fs::path directory;
};

// Commands and their options as plain data, taken from the command line that parses them, so that --help, manual
// pages and completions have one description.

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

std::string OptionText::heading() const {
  if (names.empty()) return positional + (repeats ? "..." : "");
  const std::string list = fmt::format("{}", fmt::join(names, ","));
  return value.empty() ? list
                       : list + " " + (choices.empty() ? value : fmt::format("{}", fmt::join(choices, "|")));
}

std::string CommandText::path(const std::string& between) const {
  return fmt::format("{}", fmt::join(words, between));
}

/// Words between the braces of "TEXT:{auto,json}", the form in which the command line describes a choice.
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t begin = type.find('{'), end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

OptionText describe_option(const CLI::Option& option) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (text.names.empty()) text.positional = option.get_single_name();
  const bool takes_value = option.get_items_expected_max() > 0;
  const std::string type = takes_value ? option.get_type_name() : "";
  text.choices = choices_in(type);
  text.value = type.substr(0, type.find(':'));
  text.help = option.get_description();
  text.required = option.get_required();
  text.repeats = option.get_items_expected_max() > 1;
  return text;
}

/// Adds options; those of groups, which are commands without a name, stand among those of the command.
void add_options(CommandText& text, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) text.options.push_back(describe_option(*option));
  for (const CLI::App* group : app.get_subcommands(nullptr))
    if (group->get_name().empty()) add_options(text, *group);
}

CommandText describe_command(const CLI::App& app, std::vector<std::string> words) {
  CommandText text;
  text.words = std::move(words);
  text.help = app.get_description();
  text.footer = app.get_footer();
  add_options(text, app);
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name().empty() || command->get_group().empty()) continue;
    std::vector<std::string> path = text.words;
    path.push_back(command->get_name());
    text.commands.push_back(describe_command(*command, std::move(path)));
  }
  return text;
}

/// Commands and options in the order of --help. Commands that --help hides are left out.
CommandText command_tree(const CLI::App& app) { return describe_command(app, {app.get_name()}); }

// Manual pages in roff's man macros.

/// Text escaped for roff, in which a backslash, or a dot or quote at the beginning of a line, is a command,
/// and a hyphen a dash.
std::string roff(std::string_view text) {
  std::string escaped;
  bool begins_line = true;
  for (const char letter : text) {
    if (begins_line && (letter == '.' || letter == '\'')) escaped += "\\&";
    begins_line = letter == '\n';
    if (letter == '\\')
      escaped += "\\e";
    else if (letter == '-')
      escaped += "\\-";
    else
      escaped += letter;
  }
  return escaped;
}

std::string synopsis(const CommandText& command) {
  std::string text = fmt::format(".B {}\n", roff(command.path(" ")));
  std::string positionals;
  for (const OptionText& option : command.options) {
    if (!option.names.empty()) continue;
    const std::string name =
        fmt::format("\\fI{}\\fR{}", roff(option.positional), option.repeats ? "..." : "");
    positionals += " " + (option.required ? name : "[" + name + "]");
  }
  return text + "[\\fIOPTIONS\\fR]" + positionals + (command.commands.empty() ? "" : " \\fICOMMAND\\fR") +
         "\n";
}

std::string options_section(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options)
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(option.heading()),
                        option.required ? " (required)" : "", roff(option.help));
  return ".SH OPTIONS\n" + text;
}

std::string commands_section(const CommandText& command) {
  if (command.commands.empty()) return "";
  std::string text = ".SH COMMANDS\n";
  for (const CommandText& inner : command.commands)
    text += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(inner.path("-")), roff(inner.help));
  return text;
}

/// Section with the text that --help prints below the options, with its own line breaks.
std::string details_section(const CommandText& command) {
  const std::size_t begin = command.footer.find_first_not_of('\n');
  if (begin == std::string::npos) return "";
  return ".SH DETAILS\n.nf\n" + roff(command.footer.substr(begin)) + "\n.fi\n";
}

std::string exit_section() {
  static constexpr std::array<std::pair<ExitCode, std::string_view>, 9> kMeanings{{
      {ExitCode::kDone, "done"},
      {ExitCode::kUsage, "the command line is wrong"},
      {ExitCode::kBadData, "the model or the data is bad"},
      {ExitCode::kInternal, "an internal error, or the ranks disagree, or one is lost"},
      {ExitCode::kTooLittle, "the machine has too little for the job"},
      {ExitCode::kIo, "the system refused a read or a write"},
      {ExitCode::kResumable, "a signal ended the training and its state was saved: run again to go on"},
      {ExitCode::kNumerics, "NaN or infinity in the loss or the gradients"},
      {ExitCode::kBadConfig, "the job file is wrong"},
  }};
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kMeanings)
    text += fmt::format(".TP\n{}\n{}\n", static_cast<int>(code), roff(meaning));
  return text;
}

std::string page(const CommandText& command, const std::string& version) {
  return fmt::format(".TH {} 1 \"\" \"Sluice {}\" \"Sluice\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
                     roff(command.path("-")), version, roff(command.path("-")), roff(command.help)) +
         synopsis(command) + commands_section(command) + options_section(command) + details_section(command) +
         exit_section();
}

void add_pages(std::map<std::string, std::string>& pages, const CommandText& command,
               const std::string& version) {
  pages[command.path("-") + ".1"] = page(command, version);
  for (const CommandText& inner : command.commands) add_pages(pages, inner, version);
}

/// Manual pages by file name ("sluice-tokenize.1"): one for the program and one for each of its commands.
std::map<std::string, std::string> manual_pages(const CommandText& program, const std::string& version) {
  std::map<std::string, std::string> pages;
  add_pages(pages, program, version);
  return pages;
}

// Completions.

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

/// Script for bash-completion's folder, which loads it by the program's name. Completes file names where an argument
/// may be a file.
std::string bash_completion(const CommandText& program) {
  std::vector<std::string> paths;
  add_paths(paths, program);
  return fmt::format("{}      {}){}{}{}", kHead, fmt::join(paths, "|"), kAfterCommands, choice_cases(program),
                     kAfterChoices) +
         word_cases(program) + kTail;
}

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

/// Function for zsh's fpath, to be named _sluice.
std::string zsh_completion(const CommandText& program) {
  return "#compdef sluice\n# Completion for zsh, made by `sluice describe`.\n" + functions(program) +
         "\n_sluice \"$@\"\n";
}

/// Writes the files that an installation has beside the program: man1/*.1, and completions under the names
/// that shells look for.
int describe_command(const CLI::App& app, const DescribeArguments& arguments) {
  const CommandText program = command_tree(app);
  const auto write = [&](const fs::path& name, const std::string& text) {
    const fs::path file = arguments.directory / name;
    make_directories(file.parent_path());
    write_text_file(file, text);
  };
  for (const auto& [name, text] : manual_pages(program, std::string(version())))
    write(fs::path("man1") / name, text);
  write("bash/sluice", bash_completion(program));
  write("zsh/_sluice", zsh_completion(program));
  return 0;
}

}  // namespace

void add_describe(CommandLine& line) {
  const auto [command, arguments] = add_command<DescribeArguments>(
      line, "describe", "Write manual pages and completions, as the build does",
      [&app = line.app](const DescribeArguments& told) { return describe_command(app, told); });
  command.group("");  // hidden from --help, because only the build uses it
  command.add_option("directory", arguments.directory, "Directory to write into")->required();
}

}  // namespace sluice
