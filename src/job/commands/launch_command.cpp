#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/outcome.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
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
#include <system_error>
#include <vector>

namespace sluice {
namespace {

struct LaunchArguments {
  JobArguments job;
  int ranks = 1;
  std::vector<std::string> launcher_options;  ///< of mpirun
  std::vector<std::string> command{};  ///< that ranks run in place of the job: {"generate", "models/m", ...}
};

namespace fs = std::filesystem;

/// What starts a rank with those signals ignored that this process was started with so: launchers give their ranks the default
/// of each. But for SIGUSR1, which asks the ranks to save whatever this process was told.
std::vector<std::string> words_that_ignore(const std::vector<int>& signals) {
  std::string names;
  for (const int number : signals)
    if (number != SIGUSR1) names += std::string(" ") + (signal_name(number) + std::string_view("SIG").size());
  if (names.empty()) return {};
  return {"sh", "-c", fmt::format(R"(trap ''{} && exec "$0" "$@")", names)};
}

/// mpirun -np N OPTIONS... THIS_PROGRAM run --set... -- JOB
std::vector<std::string> launcher_words(const LaunchArguments& arguments) {
  const char* launcher = std::getenv("MPIRUN");
  std::vector<std::string> words{launcher == nullptr ? "mpirun" : launcher, "-np",
                                 fmt::format("{}", arguments.ranks)};
  words.insert(words.end(), arguments.launcher_options.begin(), arguments.launcher_options.end());
  const std::vector<std::string> ignoring = words_that_ignore(ignored_requests());
  words.insert(words.end(), ignoring.begin(), ignoring.end());
  words.push_back(fs::read_symlink("/proc/self/exe").string());
  const std::vector<std::string> command =
      arguments.command.empty() ? run_words(arguments.job) : arguments.command;
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

[[noreturn]] void refuse_launcher(const std::string& launcher, int error) {
  fail(ExitCode::kUsage, "{} could not be started: {}{}", launcher, errno_text(error),
       error == ENOENT ? "; it must be in PATH, or named by the variable MPIRUN" : "");
}

/// Returns only if the launcher could not be started, with an errno value.
int become(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return errno;
}

/// The child's side: a process group of its own, which no Ctrl-C of the terminal reaches, and so without its input. What keeps it
/// from starting the launcher, an errno value, goes into the pipe.
[[noreturn]] void become_launcher(std::vector<std::string>& words, const sigset_t& mask, int pipe) {
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int error = become(words);
  [[maybe_unused]] const ssize_t written = ::write(pipe, &error, sizeof(error));
  ::_exit(1);
}

/// What the child has put into the pipe; 0 if it has started the launcher.
int start_error(int pipe) {
  int error = 0;
  while (::read(pipe, &error, sizeof(error)) < 0 && errno == EINTR) {
  }
  return error;
}

/// Refused here once, and not by each rank, or by mpirun, which would take what follows for a program to start.
void require_job_file(const fs::path& file) {
  if (!path_exists(file))
    fail(
        ExitCode::kBadConfig,
        "launch: there is no job file {}; expected one, or `generate` or `chat` with their arguments. Options of "
        "mpirun go behind --",
        file.string());
}

/// Passes signals on until the launcher has ended: the first one as SIGUSR1, which mpirun hands to every rank, where its own
/// SIGINT would kill them within two seconds. Returns its wait status.
int wait_for_launcher(pid_t launcher, const sigset_t& signals) {
  int request = 0;  // the first signal
  Stopwatch since_request;
  for (int status = 0;;) {
    int number = 0;
    if (::sigwait(&signals, &number) != 0) continue;
    if (number == SIGCHLD) {
      if (::waitpid(launcher, &status, WNOHANG) == launcher) return status;
      continue;
    }
    if (request == 0) {
      request = number;
      since_request.restart();
      ::kill(launcher, SIGUSR1);
    } else if (!repeats_request(number, request, since_request.seconds())) {
      ::kill(launcher, number == SIGQUIT ? SIGTERM : number);  // SIGQUIT would leave the ranks behind
    }
  }
}

/// Runs a job under mpirun (or the launcher that the variable MPIRUN names) and returns the job's exit status. The first signal
/// that asks for it (job/signal_watch.hpp) lets the job finish its step and save; the second is passed on as it is.
int launch_command(const LaunchArguments& arguments) {
  std::vector<std::string> words = launcher_words(arguments);
  if (arguments.command.empty()) require_job_file(arguments.job.file);
  if (!arguments.command.empty() && arguments.command.front() == "chat")
    refuse_launcher(words.front(), become(words));  // in place of this process: what is typed goes to rank 0
  sigset_t signals = request_signals(), before;
  sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    fail(ExitCode::kInternal, "cannot start {}: {}", words.front(), errno_text(errno));
  const FileDescriptor from_child(pipe[0]);
  FileDescriptor to_parent(pipe[1]);
  const pid_t launcher = ::fork();
  if (launcher < 0) fail(ExitCode::kInternal, "cannot start {}: {}", words.front(), errno_text(errno));
  if (launcher == 0) become_launcher(words, before, to_parent.get());
  to_parent = FileDescriptor(-1);
  const int error = start_error(from_child.get());
  const int status = wait_for_launcher(launcher, signals);
  if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
  if (error != 0) refuse_launcher(words.front(), error);
  return WEXITSTATUS(status);
}

}  // namespace

void add_launch(CommandLine& line) {
  const auto [command, arguments] = add_command<LaunchArguments>(
      line, "launch", "Run a job under mpirun; Ctrl-C once lets it save and end with 75", launch_command);
  arguments.command = line.rank_command;
  add_job_arguments(command, arguments.job);
  add_ranks(command, "-n,--ranks", arguments.ranks, "Number of ranks")->required();
  command.add_option("options", arguments.launcher_options, "Options of mpirun, behind --");
  command.footer("\nIn place of a job file: generate or chat and their arguments.");
}

}  // namespace sluice
