#include "job/describe/command_tree.hpp"

#include <fmt/ranges.h>

#include <utility>

namespace sluice {
namespace {

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

}  // namespace

std::string OptionText::heading() const {
  if (names.empty()) return positional + (repeats ? "..." : "");
  const std::string list = fmt::format("{}", fmt::join(names, ","));
  return value.empty() ? list
                       : list + " " + (choices.empty() ? value : fmt::format("{}", fmt::join(choices, "|")));
}

std::string CommandText::path(const std::string& between) const {
  return fmt::format("{}", fmt::join(words, between));
}

CommandText command_tree(const CLI::App& app) { return describe_command(app, {app.get_name()}); }

}  // namespace sluice
