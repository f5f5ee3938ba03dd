#include "launch/host_command.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "launch/host_network.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
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

/// Reads what is available at once, up to 64 KiB. "" at the end, or if nothing is available; `at_end` tells
/// which.
std::string read_now(int descriptor, bool& at_end) {
  std::string text(64 * kKiB, '\0');
  const ssize_t count = ::read(descriptor, text.data(), text.size());
  at_end = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
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
  fail(ExitCode::kUsage,
       "launch: there is no program {}, by which other hosts are reached: install an ssh client, or name "
       "another with -- --mca {} PROGRAM",
       printable(setting), kAgentSetting);
}

HostCommand::HostCommand(std::string host, const std::vector<std::string>& agent, const char* command)
    : host_(std::move(host)), program_(std::filesystem::read_symlink("/proc/self/exe").string()) {
  Pipe input = make_pipe(), output = make_pipe(), errors = make_pipe();
  std::vector<std::string> words{program_, command};
  if (!is_this_machine(host_)) {
    words = agent;
    words.insert(words.end(), {host_, shell_word(program_) + " " + command});
  }
  child_.emplace(words, ChildStreams{input.reading.get(), output.writing.get(), errors.writing.get()},
                 ProcessGroup::kOwn);
  for (const int descriptor : {input.writing.get(), output.reading.get(), errors.reading.get()})
    ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  input_ = std::move(input.writing);
  output_ = std::move(output.reading);
  errors_ = std::move(errors.reading);
}

std::int64_t HostCommand::write(std::string_view text) {
  const ssize_t count = ::write(input_.get(), text.data(), text.size());
  if (count >= 0) return count;
  return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

std::optional<std::string> HostCommand::next_line() {
  bool at_end = false;
  if (output_.get() >= 0) text_ += read_now(output_.get(), at_end);
  if (at_end) output_ = FileDescriptor(-1);
  const std::size_t end = text_.find('\n');
  if (end == text_.npos) return std::nullopt;
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

Outcome HostCommand::why_not_done() {
  bool at_end = false;
  std::string said = printable(read_now(errors_.get(), at_end), 400);
  if (!said.empty()) said = "; the agent said: " + said;
  const std::optional<int> status = output_.get() < 0 ? child_->wait_until(Deadline(1)) : std::nullopt;
  const std::string expected = fmt::format(
      "Expected a host that takes commands without a password: try `ssh {} true`, look at its link and "
      "firewall, or leave it out, as --min-ranks allows each start to do",
      host_);
  if (!status) return {ExitCode::kInternal, fmt::format("{} does not answer{}. {}", host_, said, expected)};
  const int code = exit_status(*status);
  if (code == kNoProgram || code == kNotExecutable)
    return {ExitCode::kBadConfig,
            fmt::format(
                "{}: {} cannot be run there{}. Install this version with its libraries at this path on every "
                "host",
                host_, program_, said)};
  return {ExitCode::kInternal,
          fmt::format("{} cannot be reached: the agent ended with {}{}. {}", host_, code, said, expected)};
}

}  // namespace sluice
