#include "job/slurm/child_program.hpp"

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "io/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sluice {
namespace {

constexpr std::size_t kMostOutput = 64 * kKiB;

/// Where a program's input and output go, and that no signal is blocked for it.
class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files_, output, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* files() const { return &files_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// Until its end, or until the deadline: then false.
bool read_all(int pipe, const Deadline& deadline, std::string& output) {
  for (;;) {
    pollfd waited{pipe, POLLIN, 0};
    const int ready = ::poll(&waited, 1, std::max(0, static_cast<int>(deadline.seconds_left() * 1000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    std::array<char, 4096> part{};
    const ssize_t count = ::read(pipe, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0;
    output.append(part.data(), std::min(static_cast<std::size_t>(count), kMostOutput - output.size()));
  }
}

std::optional<int> wait_for_end(pid_t program, const Deadline& deadline) {
  for (int status = 0;;) {
    const pid_t ended = ::waitpid(program, &status, WNOHANG);
    if (ended == program) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if ((ended < 0 && errno != EINTR) || deadline.passed()) return std::nullopt;
    ::usleep(5000);
  }
}

}  // namespace

std::optional<ProgramResult> run_program(std::vector<std::string> words, double limit_seconds) {
  const Deadline deadline(limit_seconds);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const FileDescriptor reading(ends[0]);
  FileDescriptor writing(ends[1]);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const SpawnSettings settings(writing.get());
  pid_t program = 0;
  if (::posix_spawnp(&program, pointers.front(), settings.files(), settings.attributes(), pointers.data(),
                     environ) != 0)
    return std::nullopt;
  writing = FileDescriptor(-1);
  ProgramResult result;
  if (read_all(reading.get(), deadline, result.output))
    if (const std::optional<int> status = wait_for_end(program, deadline)) {
      result.status = *status;
      return result;
    }
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  return std::nullopt;
}

}  // namespace sluice
