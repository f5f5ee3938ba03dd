#include "command_words.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace sluice {

std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (word.starts_with('-') || std::ranges::find(names, word) != names.end()) return "";
  const std::string near = nearest(word, names);
  return fmt::format("sluice: there is no command {}{}; sluice --help lists them", printable(word),
                     near.empty() ? "" : ". Did you mean " + near + "?");
}

Words take_rank_command(Words& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto name = std::find_if(
      words.begin(), end, [](const std::string& word) { return word == "generate" || word == "chat"; });
  if (words.empty() || words.front() != "launch" || name == end) return {};
  Words command(name, end);
  words.erase(name + 1, end);
  return command;
}

}  // namespace sluice
