// mpirun, or what the variable MPIRUN names, as a child of this process.
#pragma once

#include "base/clock.hpp"
#include "io/child_process.hpp"
#include "job/launch/host_list.hpp"

#include <unistd.h>

#include <string>
#include <vector>

namespace sluice {

/// mpirun -np RANKS OPTIONS..., with the hosts where some are named; then no rank is bound to a core, of
/// which Open MPI would give each of two ranks only one, unless the options bind.
[[nodiscard]] std::vector<std::string> mpirun_words(int ranks, const std::vector<LaunchHost>& hosts,
                                                    const std::vector<std::string>& options);

/// Starts it in a process group of its own, which no Ctrl-C of the terminal reaches, and so without its
/// input; its stderr goes into `errors`. Error(kUsage) if there is no such program.
[[nodiscard]] ChildProcess start_launcher(const std::vector<std::string>& words, int errors = STDERR_FILENO);

/// Makes this process the launcher. Error(kUsage) if there is no such program.
[[noreturn]] void become_launcher(const std::vector<std::string>& words);

/// Passes signals on to a launcher: the first one as SIGUSR1, which mpirun hands to every rank, where its own
/// SIGINT would kill them within two seconds.
class SignalRelay {
 public:
  /// `launcher` must outlive the relay.
  explicit SignalRelay(const ChildProcess& launcher) : launcher_(launcher) {}
  void take(int number);
  /// Whether a signal has come.
  [[nodiscard]] bool has_request() const { return request_ != 0; }

 private:
  const ChildProcess& launcher_;
  int request_ = 0;  ///< the first signal
  Stopwatch since_request_;
};

}  // namespace sluice
