#include "io/child_process.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace sluice {
namespace {

class SpawnSettings {
 public:
  SpawnSettings(const ChildStreams& streams, ProcessGroup group) {
    ::posix_spawn_file_actions_init(&files_);
    connect(streams.input, STDIN_FILENO, O_RDONLY);
    connect(streams.output, STDOUT_FILENO, O_WRONLY);
    connect(streams.error, STDERR_FILENO, O_WRONLY);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    const int own_group = group == ProcessGroup::kOwn ? POSIX_SPAWN_SETPGROUP : 0;
    ::posix_spawnattr_setflags(&attributes_, static_cast<short>(POSIX_SPAWN_SETSIGMASK | own_group));
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* files() const { return &files_; }
  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  void connect(int from, int to, int mode) {
    if (from < 0) {
      ::posix_spawn_file_actions_addopen(&files_, to, "/dev/null", mode, 0);
    } else {
      ::posix_spawn_file_actions_adddup2(&files_, from, to);
    }
  }

  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

/// Pointers to the words for the system's call; they point into `words`.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail({ExitCode::kTooLittle, "io.process"}, "cannot make a pipe: {}", errno_text(errno));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::string shell_word(std::string_view word) {
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

int become_program(std::vector<std::string> words) {
  ::execvp(words.front().c_str(), pointers_to(words).data());
  return errno;
}

int exit_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

ChildProcess::ChildProcess(std::vector<std::string> words, const ChildStreams& streams, ProcessGroup group) {
  const SpawnSettings settings(streams, group);
  pid_t started = -1;
  const int error = ::posix_spawnp(&started, words.front().c_str(), settings.files(), settings.attributes(),
                                   pointers_to(words).data(), environ);
  if (error != 0)
    fail({ExitCode::kTooLittle, "io.process"}, "{} cannot be started: {}", words.front(), errno_text(error));
  process_ = started;
}

std::optional<int> ChildProcess::wait_until(const Deadline& deadline) {
  // Pause between looks at a child: most end soon, and one that does not is not worth a busy processor.
  auto pause = std::chrono::microseconds(200);
  for (int status = 0;;) {
    const pid_t ended = ::waitpid(process_, &status, WNOHANG);
    if (ended < 0 && errno != EINTR)
      fail(ExitCode::kInternal, "cannot wait for process {}: {}", std::exchange(process_, -1),
           errno_text(errno));
    if (ended == process_) {
      process_ = -1;
      return status;
    }
    if (deadline.passed()) return std::nullopt;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(20'000));
  }
}

void ChildProcess::signal(int number) const {
  if (process_ > 0) ::kill(process_, number);
}

ChildProcess::~ChildProcess() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace sluice
