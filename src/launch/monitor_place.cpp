#include "launch/monitor_place.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"

#include <fcntl.h>
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

namespace fs = std::filesystem;

constexpr double kWaitSeconds = 15;
/// Seconds of silence of a launch after which its monitor may be ended.
constexpr double kStaleSeconds = 10;

/// Whether a process has the file open, so that it is a monitor of the run. The file names the former monitor
/// until the next one has written its own number, and that of the former may be another process's by then.
bool has_open(pid_t process, const struct stat& file) {
  std::error_code error;
  const fs::path open_files = fmt::format("/proc/{}/fd", process);
  for (fs::directory_iterator entry(open_files, error), end; !error && entry != end; entry.increment(error)) {
    struct stat found {};
    const bool is_there = ::stat(entry->path().c_str(), &found) == 0;
    if (is_there && found.st_dev == file.st_dev && found.st_ino == file.st_ino) return true;
  }
  return false;
}

}  // namespace

bool MonitorPlace::take(const std::string& run) {
  const std::string path = fs::temp_directory_path() / fmt::format("sluice-launch-{}-{}", ::getuid(), run);
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

void MonitorPlace::touch() const { ::futimens(file_.get(), nullptr); }

double MonitorPlace::seconds_since_word() const {
  struct stat found {};
  return ::fstat(file_.get(), &found) == 0 ? std::difftime(std::time(nullptr), found.st_mtime) : 0;
}

void MonitorPlace::end_holder() const {
  std::array<char, 21> text{};
  if (::pread(file_.get(), text.data(), text.size() - 1, 0) <= 0) return;
  pid_t holder = 0;
  struct stat file {};
  const bool is_number = std::from_chars(text.begin(), text.end(), holder).ec == std::errc();
  if (!is_number || holder <= 1 || ::fstat(file_.get(), &file) != 0) return;
  if (has_open(holder, file)) ::kill(holder, SIGKILL);
}

}  // namespace sluice
