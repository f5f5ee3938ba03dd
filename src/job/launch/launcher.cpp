#include "job/launch/launcher.hpp"

#include "base/error.hpp"
#include "io/file.hpp"
#include "job/signal_watch.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

namespace sluice {
namespace {

[[noreturn]] void refuse_launcher(const std::string& launcher, int error) {
  fail(ExitCode::kUsage, "{} could not be started: {}{}", launcher, errno_text(error),
       error == ENOENT ? "; it must be in PATH, or named by the variable MPIRUN" : "");
}

/// Returns only if the launcher could not be started, with an errno value.
int try_to_become(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return errno;
}

/// The child's side. What keeps it from starting the launcher, an errno value, goes into the pipe.
[[noreturn]] void become_child(std::vector<std::string>& words, const sigset_t& mask, int errors, int pipe) {
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  if (errors >= 0) ::dup2(errors, STDERR_FILENO);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int error = try_to_become(words);
  [[maybe_unused]] const ssize_t written = ::write(pipe, &error, sizeof(error));
  ::_exit(1);
}

/// Error number that the child has put into the pipe; 0 if it has started the launcher.
int start_error(int pipe) {
  int error = 0;
  while (::read(pipe, &error, sizeof(error)) < 0 && errno == EINTR) {
  }
  return error;
}

}  // namespace

std::vector<std::string> mpirun_words(int ranks, const std::vector<LaunchHost>& hosts,
                                      const std::vector<std::string>& options) {
  const char* launcher = std::getenv("MPIRUN");
  std::vector<std::string> words{launcher == nullptr ? "mpirun" : launcher, "-np", fmt::format("{}", ranks)};
  if (!hosts.empty()) {
    words.insert(words.end(), {"--host", hosts_text(hosts)});
    const auto binds = [](const std::string& word) { return word == "--bind-to" || word == "-bind-to"; };
    if (std::ranges::none_of(options, binds)) words.insert(words.end(), {"--bind-to", "none"});
  }
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

pid_t start_launcher(std::vector<std::string> words, const sigset_t& mask, int errors) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    fail(ExitCode::kInternal, "cannot start {}: {}", words.front(), errno_text(errno));
  const FileDescriptor from_child(pipe[0]);
  FileDescriptor to_parent(pipe[1]);
  const pid_t launcher = ::fork();
  if (launcher < 0) fail(ExitCode::kInternal, "cannot start {}: {}", words.front(), errno_text(errno));
  if (launcher == 0) become_child(words, mask, errors, to_parent.get());
  to_parent = FileDescriptor(-1);
  const int error = start_error(from_child.get());
  if (error == 0) return launcher;
  while (::waitpid(launcher, nullptr, 0) < 0 && errno == EINTR) {
  }
  refuse_launcher(words.front(), error);
}

void become_launcher(std::vector<std::string> words) { refuse_launcher(words.front(), try_to_become(words)); }

void SignalRelay::take(int number) {
  if (request_ == 0) {
    request_ = number;
    since_request_.restart();
    ::kill(launcher_, SIGUSR1);
  } else if (!repeats_request(number, request_, since_request_.seconds())) {
    ::kill(launcher_, number == SIGQUIT ? SIGTERM : number);  // SIGQUIT would leave the ranks behind
  }
}

}  // namespace sluice
