#include "job/describe/descriptions.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

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

}  // namespace

std::map<std::string, std::string> manual_pages(const CommandText& program, const std::string& version) {
  std::map<std::string, std::string> pages;
  add_pages(pages, program, version);
  return pages;
}

}  // namespace sluice
