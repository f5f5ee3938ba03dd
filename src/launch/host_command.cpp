#include "launch/host_command.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "launch/host_network.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

namespace sluice {
namespace {

constexpr const char* kAgentSetting = "plm_rsh_agent";
constexpr int kNoProgram = 127;
constexpr int kNotExecutable = 126;

std::string agent_setting(const std::vector<std::string>& options) {
  for (std::size_t i = 1; i + 1 < options.size(); ++i)
    if (options[i] == kAgentSetting) return options[i + 1];
  const char* const value = std::getenv("OMPI_MCA_plm_rsh_agent");
  return value == nullptr ? "ssh : rsh" : value;
}

bool is_in_path(const std::string& program) {
  if (program.find('/') != program.npos) return ::access(program.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// Words that run a command of this program on a host.
std::vector<std::string> words_on(const std::string& host, std::vector<std::string> agent,
                                  const char* command) {
  if (is_this_machine(host)) return {this_program(), command};
  agent.insert(agent.end(), {host, shell_word(this_program()) + " " + command});
  return agent;
}

}  // namespace

std::vector<std::string> agent_words(const std::vector<std::string>& launcher_options) {
  const std::string setting = agent_setting(launcher_options);
  std::istringstream choices(setting);
  for (std::string choice; std::getline(choices, choice, ':');) {
    std::istringstream text(choice);
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    if (!words.empty() && is_in_path(words.front())) return words;
  }
  fail({ExitCode::kUsage, "launch.program"},
       "launch: there is no program {}, by which other hosts are reached: install an ssh client, or name "
       "another with -- --mca {} PROGRAM",
       printable(setting), kAgentSetting);
}

HostCommand::HostCommand(std::string host, const std::vector<std::string>& agent, const char* command)
    : ChildProgram(words_on(host, agent, command), ErrorOutput::kKept, ProcessGroup::kOwn),
      host_(std::move(host)) {}

Outcome HostCommand::why_not_done() {
  std::string said = printable(error_output(), 400);
  if (!said.empty()) said = "; the agent said: " + said;
  const std::optional<int> status = output() < 0 ? wait_until(Deadline(1)) : std::nullopt;
  const std::string expected = fmt::format(
      "Expected a host that takes commands without a password: try `ssh {} true`, look at its link and "
      "firewall, or leave it out, as --min-ranks allows each start to do",
      host_);
  if (!status)
    return {{ExitCode::kInternal, "launch.host"},
            fmt::format("{} does not answer{}. {}", host_, said, expected)};
  if (*status == kNoProgram || *status == kNotExecutable)
    return {{ExitCode::kBadConfig, "launch.program"},
            fmt::format(
                "{}: {} cannot be run there{}. Install this version with its libraries at this path on every "
                "host",
                host_, this_program(), said)};
  return {{ExitCode::kInternal, "launch.host"},
          fmt::format("{} cannot be reached: the agent ended with {}{}. {}", host_, *status, said, expected)};
}

}  // namespace sluice
