// The launcher, mpirun or the program in the variable MPIRUN, as a child process: its command line, its signals
// and its stderr.
#pragma once

#include "base/clock.hpp"
#include "io/child_process.hpp"
#include "launch/host_list.hpp"
#include "launch/job_end.hpp"

#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Words of mpirun: mpirun -np RANKS OPTIONS..., with hosts if there are any. No rank is bound to a core unless the
/// options say so, because Open MPI would give each of one or two ranks only one core.
[[nodiscard]] std::vector<std::string> mpirun_words(int ranks, const std::vector<LaunchHost>& hosts,
                                                    const std::vector<std::string>& options);

/// Options of mpirun by which ranks on all hosts get the variables of this process's environment with these
/// names, but for those that `options` pass on already. None if the user has Open MPI pass on a list of its own
/// (mca_base_env_list), beside which it takes no such options.
[[nodiscard]] std::vector<std::string> variable_words(const std::set<std::string>& names,
                                                      const std::vector<std::string>& options);

/// Lets the ranks do without Open MPI's single copy (comm/mpi/single_copy.hpp) where a trial shows that processes
/// may not read each other's memory on this machine, by a variable of this process's environment, which the
/// launcher passes on. Leaves what the user has set, in `options` of mpirun too.
void avoid_single_copy(const std::vector<std::string>& options);

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

/// Filter for mpirun's stderr: removes what ranks tell the launch, and holds back mpirun's own messages about
/// an end until the launch knows whether it knows better.
class LauncherOutput {
 public:
  /// Reads the output of mpirun and its ranks: keeps records and mpirun's blocks between dashed lines, and
  /// passes everything else on to stderr.
  void take(std::string_view text);
  /// Passes on blocks that are older than a few seconds and tell of no death; must be called repeatedly while
  /// the job runs.
  void pass_old_blocks();
  /// Passes on all blocks that were held back.
  void pass_blocks();
  void drop_blocks() { blocks_.clear(); }
  /// Drops blocks that only tell which rank ended first.
  void drop_deaths();

  /// Reports of ranks about the end of the job, the first one first.
  [[nodiscard]] const std::vector<RankRecord>& endings() const { return endings_; }
  /// Host of each rank that has told it.
  [[nodiscard]] const std::map<int, std::string>& hosts() const { return hosts_; }
  /// Last step that the ranks have saved; 0: none.
  [[nodiscard]] std::int64_t saved_step() const { return saved_step_; }
  /// First rank that has died according to mpirun.
  [[nodiscard]] std::optional<RankDeath> death() const;

 private:
  struct Block {
    std::string text;
    bool tells_of_death = false;
    Stopwatch age{};
  };

  void take_line(const std::string& line);
  void end_block();

  std::string partial_;  ///< incomplete line at the end of the output
  std::string block_;    ///< block whose end has not come yet
  bool is_in_block_ = false;
  std::vector<Block> blocks_;
  std::vector<RankRecord> endings_;
  std::map<int, std::string> hosts_;
  std::int64_t saved_step_ = 0;
  std::optional<RankDeath> death_;
  /// Whether a rank has told that it crashes, in the one line that it can still write.
  bool has_crash_ = false;
};

}  // namespace sluice
