// Runs jobs one after the other in the same ranks, for tests that start hundreds of them: what a launch costs
// is then paid once a suite.
//
//   mpirun -np N sluice-suite-runner DIRECTORY
//
// Rank r reads requests, a line of JSON each, from the FIFO DIRECTORY/r: {"ranks": n, "job": "job.toml",
// "overrides": ["table.key=value", ...], "faults": LIST, "run": DIRECTORY, "output": FILE}. Ranks 0 to n - 1
// get the same request and run that job with those faults; what they print goes into FILE. Rank 0 then writes
// "done CODE" to stdout. A job in which a rank fails ends the runner as it ends a job of its own, with the
// job's exit code. {"end": true} to all ranks ends the runner with 0. Rank 0 sends it when it has had no request
// for two minutes and nobody holds the lock of DIRECTORY/lock: then the run of the tests is gone.

#include "comm/failure/crash_report.hpp"
#include "comm/mpi/mpi_environment.hpp"
#include "job/run/run_job.hpp"
#include "process/console.hpp"
#include "process/signal_watch.hpp"
#include "support/fault_injection.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice {
namespace {

/// While it lives, stdout and stderr of this rank are appended to a file that the ranks of a job share.
class RedirectedOutput {
 public:
  explicit RedirectedOutput(const std::string& file)
      : stdout_(dup(STDOUT_FILENO)), stderr_(dup(STDERR_FILENO)) {
    const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor < 0) fail(ExitCode::kIo, "cannot write {}", file);
    point_at(descriptor, descriptor);
    close(descriptor);
  }
  ~RedirectedOutput() {
    point_at(stdout_, stderr_);
    close(stdout_);
    close(stderr_);
  }
  RedirectedOutput(const RedirectedOutput&) = delete;
  RedirectedOutput& operator=(const RedirectedOutput&) = delete;

 private:
  static void point_at(int out, int err) {
    std::cout.flush();
    std::fflush(nullptr);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
  }

  int stdout_;
  int stderr_;
};

/// One communicator over the first n ranks for each n. Collective over `world`.
std::vector<std::unique_ptr<Communicator>> communicators_by_size(Communicator& world) {
  std::vector<std::unique_ptr<Communicator>> parts;
  for (int n = 1; n <= world.size(); ++n)
    parts.push_back(world.split(world.rank() < n ? 0 : 1, world.rank()));
  return parts;
}

/// Collective over `part`. Returns the job's exit code.
ExitCode run(const nlohmann::json& request, Communicator& part, MpiEnvironment& mpi, SignalWatch& signals) {
  const RedirectedOutput output(request.at("output"));
  JobArguments arguments;
  arguments.file = request.at("job").get<std::string>();
  arguments.overrides = request.at("overrides").get<std::vector<std::string>>();
  set_faults(request.at("faults").get<std::string>(), request.at("run"));
  const std::unique_ptr<Communicator> ranks = part.split(0, part.rank());
  const Outcome outcome = run_job(prepare_attempt(arguments), {*ranks, mpi, signals});
  if (ranks->rank() == 0 && !outcome.text.empty()) console::report(outcome.text);
  ranks->barrier();  // all that the job prints is in the file
  return outcome.code;
}

constexpr int kIdleMilliseconds = 120'000;

/// The lines that come out of one rank's FIFO.
class Requests {
 public:
  /// Opens the FIFO for both ends, so that it has no end while programs come and go.
  Requests(const std::string& directory, int rank)
      : fifo_(open((directory + "/" + std::to_string(rank)).c_str(), O_RDWR | O_CLOEXEC)) {
    if (fifo_ < 0)
      fail(ExitCode::kIo, "cannot read requests of rank {} in {}: {}", rank, directory, errno_text(errno));
  }
  ~Requests() { close(fifo_); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// The next line, or nothing if none has come for `milliseconds` (-1: waits for ever).
  std::optional<std::string> next(int milliseconds) {
    std::size_t end = 0;
    while ((end = unread_.find('\n')) == std::string::npos) {
      pollfd wanted{fifo_, POLLIN, 0};
      const int ready = poll(&wanted, 1, milliseconds);
      if (ready == 0) return std::nullopt;
      char part[4096];
      const ssize_t size = ready < 0 ? ready : read(fifo_, part, sizeof(part));
      if (size < 0 && errno != EINTR) fail(ExitCode::kIo, "cannot read requests: {}", errno_text(errno));
      if (size > 0) unread_.append(part, static_cast<std::size_t>(size));
    }
    std::string line = unread_.substr(0, end);
    unread_.erase(0, end + 1);
    return line;
  }

 private:
  int fifo_;
  std::string unread_;
};

/// Sends all ranks the request to end, unless a program holds the lock; ends them at once where the folder is gone.
void end_if_left_alone(const std::string& directory, int ranks) {
  const int lock = open((directory + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  if (lock < 0) std::_Exit(0);
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return;
  }
  // The lock stays with this process, so that no program takes ranks that are about to end.
  for (int rank = 0; rank < ranks; ++rank)
    std::ofstream(directory + "/" + std::to_string(rank), std::ios::in) << "{\"end\": true}\n";
}

int serve(const std::string& directory) {
  SignalWatch signals;
  install_crash_report();
  MpiEnvironment mpi;
  const auto parts = communicators_by_size(mpi.world());
  const int rank = mpi.world().rank();
  Requests requests(directory, rank);
  while (true) {
    const std::optional<std::string> line = requests.next(rank == 0 ? kIdleMilliseconds : -1);
    if (!line) {
      end_if_left_alone(directory, mpi.world().size());
      continue;
    }
    const auto request = nlohmann::json::parse(*line);
    if (request.contains("end")) break;
    const auto ranks = request.at("ranks").get<std::size_t>();
    const ExitCode code = run(request, *parts.at(ranks - 1), mpi, signals);
    if (rank == 0) std::cout << "done " << static_cast<int>(code) << '\n' << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  if (argc != 2) return 64;
  int status = 70;
  try {
    status = sluice::serve(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "sluice-suite-runner: " << error.what() << '\n';
  }
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}
