#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "job/commands/commands.hpp"
#include "job/exec_compute_program.hpp"
#include "job/signal_watch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::array kPassedOn{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
/// Exit status of a child that found no launcher, as a shell has it.
constexpr int kNotStarted = 127;

/// mpirun -np N OPTIONS... THIS_PROGRAM run --set... -- JOB
std::vector<std::string> launcher_words(const LaunchArguments& arguments) {
  const char* launcher = std::getenv("MPIRUN");
  std::vector<std::string> words{launcher == nullptr ? "mpirun" : launcher, "-np",
                                 fmt::format("{}", arguments.ranks)};
  words.insert(words.end(), arguments.launcher_options.begin(), arguments.launcher_options.end());
  words.push_back(fs::read_symlink("/proc/self/exe").string());
  const std::vector<std::string> command =
      arguments.command.empty() ? run_words(arguments.job) : arguments.command;
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

/// The child's side: a process group of its own, which no Ctrl-C of the terminal reaches, and so without its input.
[[noreturn]] void become_launcher(std::vector<std::string>& words, const sigset_t& mask) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execvp(pointers.front(), pointers.data());
  ::_exit(kNotStarted);
}

/// Passes signals on until the launcher has ended: the first SIGINT or SIGTERM as SIGUSR1, which mpirun hands to every rank,
/// where its own SIGINT would kill them within two seconds. Returns its wait status.
int wait_for_launcher(pid_t launcher, const sigset_t& signals) {
  bool was_asked = false;
  for (int status = 0;;) {
    int number = 0;
    if (::sigwait(&signals, &number) != 0) continue;
    if (number == SIGCHLD) {
      if (::waitpid(launcher, &status, WNOHANG) == launcher) return status;
      continue;
    }
    const bool asks = (number == SIGINT || number == SIGTERM) && !was_asked;
    was_asked = was_asked || asks;
    ::kill(launcher, asks ? SIGUSR1 : number);
  }
}

}  // namespace

int launch_command(const LaunchArguments& arguments) {
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int number : kPassedOn) sigaddset(&signals, number);
  sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  std::vector<std::string> words = launcher_words(arguments);
  const pid_t launcher = ::fork();
  if (launcher < 0) fail(ExitCode::kInternal, "cannot start {}: {}", words.front(), errno_text(errno));
  if (launcher == 0) become_launcher(words, before);
  const int status = wait_for_launcher(launcher, signals);
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  if (WEXITSTATUS(status) == kNotStarted)
    fail(ExitCode::kUsage, "{} could not be started; it must be in PATH, or named by the variable MPIRUN",
         words.front());
  return WEXITSTATUS(status);
}

}  // namespace sluice
