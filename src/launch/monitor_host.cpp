#include "base/error.hpp"
#include "launch/host_network.hpp"
#include "launch/monitors.hpp"
#include "process/host_name.hpp"
#include "process/input_lines.hpp"
#include "process/launch_mark.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>

namespace sluice {
namespace {

using Json = nlohmann::json;

/// Writes a line to the launch; false if nobody reads it any more.
bool say(const std::string& word) {
  const std::string line = word + "\n";
  return ::write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

/// Place of the one monitor of a run on this machine: a file that is locked while the monitor lives, holds
/// its process id, and is as old as the launch's last message.
class MonitorPlace {
 public:
  /// Waits until another launch of the run has ended, and ends a monitor that has lost its launch. False if
  /// another launch is still running.
  bool take(const std::string& run) {
    const auto name = fmt::format("sluice-launch-{}-{}", ::getuid(), run);
    const std::string path = std::filesystem::temp_directory_path() / name;
    file_ = FileDescriptor(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file_.get() < 0) fail(ExitCode::kIo, "cannot create {}: {}", path, errno_text(errno));
    for (const Deadline deadline(kWaitSeconds); ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0;) {
      if (deadline.passed()) return false;
      if (seconds_since_word() > kStaleSeconds) end_holder();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const std::string process = fmt::format("{:<20}", ::getpid());
    return ::pwrite(file_.get(), process.data(), process.size(), 0) > 0;
  }

  /// Records that the launch is alive.
  void touch() const { ::futimens(file_.get(), nullptr); }

 private:
  static constexpr double kWaitSeconds = 15;
  static constexpr double kStaleSeconds = 10;

  [[nodiscard]] double seconds_since_word() const {
    struct stat found {};
    return ::fstat(file_.get(), &found) == 0 ? std::difftime(std::time(nullptr), found.st_mtime) : 0;
  }

  void end_holder() const {
    std::array<char, 21> text{};
    if (::pread(file_.get(), text.data(), text.size() - 1, 0) <= 0) return;
    pid_t holder = 0;
    const bool is_number = std::from_chars(text.begin(), text.end(), holder).ec == std::errc();
    if (is_number && holder > 1) ::kill(holder, SIGKILL);
  }

  FileDescriptor file_{-1};
};

/// Answers the launch until it asks for the end, has ended, or is silent for too long.
void watch(InputLines& lines, const MonitorPlace& place, const MonitorOrder& order) {
  Stopwatch since_word, since_beat;
  for (std::string line; lines.next(line) != InputLines::Found::kEnd && line != "end";) {
    if (!line.empty()) {
      since_word.restart();
      place.touch();
    }
    if (since_word.seconds() > order.silence_seconds) return;
    if (since_beat.seconds() < kBeatSeconds) continue;
    since_beat.restart();
    if (!say(fmt::format("{}", marked_processes(order.launch).ranks))) return;
  }
}

MonitorOrder read_order(InputLines& lines) {
  std::string line;
  while (line.empty() && lines.next(line) != InputLines::Found::kEnd) continue;
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail(ExitCode::kUsage, "host-monitor: only `sluice launch --hosts` starts it");
  return json.get<MonitorOrder>();
}

}  // namespace

int monitor_host() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  InputLines lines;
  const MonitorOrder order = read_order(lines);
  MonitorPlace place;
  if (!place.take(order.run)) {
    const MonitorAnswer refusal{
        .refused =
            "another launch of this run works there; end it first, or give this one a job.output of its own"};
    say(Json(refusal).dump());
    return static_cast<int>(ExitCode::kBadConfig);
  }
  const int ended = end_marked_processes(order.run + "-");
  const MonitorAnswer ready{.host = host_name(), .addresses = interface_addresses(), .ended = ended};
  if (say(Json(ready).dump())) watch(lines, place, order);
  end_marked_processes(order.launch);
  return 0;
}

}  // namespace sluice
