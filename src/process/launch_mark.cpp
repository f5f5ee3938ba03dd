#include "process/launch_mark.hpp"

#include "base/clock.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// Words of a file in /proc, with a NUL before and behind each; a single NUL if it cannot be read. Reading
/// fails if the process ends meanwhile, which read() tells without an exception.
std::string words_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string words(1, '\0');
  std::array<char, 4096> part{};
  while (stream.read(part.data(), part.size()), stream.gcount() > 0)
    words.append(part.data(), static_cast<std::size_t>(stream.gcount()));
  return words + '\0';
}

bool contains(const std::string& words, const std::string& part) { return words.find(part) != words.npos; }

}  // namespace

std::string new_launch_id(std::string_view run_id) {
  const auto ticks = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}-{:x}-{:x}", run_id, getpid(), ticks);
}

MarkedProcesses marked_processes(std::string_view id) {
  using namespace std::string_literals;
  const std::string in_environment = "\0"s + kLaunchVariable + "=" + std::string(id);
  const std::string on_command_line = "\0"s + std::string(kLaunchMark) + "\0"s + std::string(id);
  MarkedProcesses found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ptr != name.data() + name.size() ||
        process == getpid())
      continue;
    const std::string environment = words_in(entry.path() / "environ");
    const bool has_variable = contains(environment, in_environment);
    if (!has_variable && !contains(words_in(entry.path() / "cmdline"), on_command_line)) continue;
    found.all.push_back(process);
    if (has_variable && contains(environment, "\0OMPI_COMM_WORLD_RANK="s)) ++found.ranks;
  }
  return found;
}

int end_marked_processes(std::string_view id) {
  std::set<pid_t> killed;
  for (const Deadline deadline(3); !deadline.passed();) {
    const MarkedProcesses left = marked_processes(id);
    if (left.all.empty()) break;
    for (const pid_t process : left.all)
      if (::kill(process, SIGKILL) == 0) killed.insert(process);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return static_cast<int>(killed.size());
}

}  // namespace sluice
