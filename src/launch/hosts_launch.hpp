// Runs a job on several hosts, from their first answer to the end of all of its processes, and starts it again
// when a rank, a host or a link is lost.
#pragma once

#include "launch/handover.hpp"
#include "launch/host_list.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

struct HostsLaunch {
  std::vector<LaunchHost> hosts;
  int ranks = 0;        ///< number of ranks of the job, if all hosts are ready
  int least_slots = 0;  ///< slots that suffice for a start without hosts that do not answer
  /// Options of mpirun, except those for ranks and hosts.
  std::vector<std::string> launcher_options{};
  std::vector<std::string> command{};  ///< command that each rank runs
  /// Words that start a command on another host (launch/host_command.hpp).
  std::vector<std::string> agent{};
  std::vector<JobInput> inputs{};  ///< files of this host that every host needs
  std::filesystem::path run{};     ///< run directory; "" for a job without one
  std::string run_id{};            ///< id that all launches of this run share, and no other launch has
  /// Whether ranks use only the network to which the hosts' names resolve.
  bool chooses_network = true;
  /// Longest time in seconds after which a rank notices that another one is lost.
  double longest_section_seconds = 0;
};

/// Seconds between the end of an attempt and restart number `restart`, from 1 on, of a row without a new
/// checkpoint: doubled each time, at most a minute.
[[nodiscard]] double restart_delay(int restart);

/// Starts the ranks and waits for their end, which it brings about within 15 s of the first one that fails,
/// on every host that it can reach, and explains once on stderr. Where a rank, a host or a link is lost, and
/// starting again may help, it does so at most `most_restarts` times in a row without a step that the ranks
/// say to have saved; hosts that do not answer are left out each time, as far as launch.least_slots allows.
/// Between two attempts a signal ends this process as by default. Returns the exit status of the last
/// attempt: what its ranks ended with, 70 where a rank, a host or a link was lost. Errors of Monitors
/// (launch/monitors.hpp) if too few hosts are ready at the first start, and of hand_over().
[[nodiscard]] int run_on_hosts(const HostsLaunch& launch, int most_restarts);

}  // namespace sluice
