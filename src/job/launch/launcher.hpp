// The launcher, mpirun or the program in the variable MPIRUN, as a child process.
#pragma once

#include "base/clock.hpp"
#include "io/child_process.hpp"
#include "job/launch/host_list.hpp"

#include <unistd.h>

#include <string>
#include <vector>

namespace sluice {

/// Words of mpirun: mpirun -np RANKS OPTIONS..., with hosts if there are any. On hosts no rank is bound to a
/// core unless the options say so, because Open MPI would give each of two ranks only one core.
[[nodiscard]] std::vector<std::string> mpirun_words(int ranks, const std::vector<LaunchHost>& hosts,
                                                    const std::vector<std::string>& options);

/// Starts a launcher in a process group of its own, which no Ctrl-C of the terminal reaches, and without
/// input; its stderr goes to `errors`. Error(kUsage) if there is no such program.
[[nodiscard]] ChildProcess start_launcher(const std::vector<std::string>& words, int errors = STDERR_FILENO);

/// Replaces this process by the launcher. Error(kUsage) if there is no such program.
[[noreturn]] void become_launcher(const std::vector<std::string>& words);

/// Passes signals on to a launcher: the first one as SIGUSR1, which mpirun hands to every rank, because its
/// own SIGINT would kill them within two seconds.
class SignalRelay {
 public:
  /// `launcher` must outlive the relay.
  explicit SignalRelay(const ChildProcess& launcher) : launcher_(launcher) {}
  void take(int number);
  /// Whether a signal has arrived.
  [[nodiscard]] bool has_request() const { return request_ != 0; }

 private:
  const ChildProcess& launcher_;
  int request_ = 0;  ///< number of the first signal; 0: none
  Stopwatch since_request_;
};

}  // namespace sluice
