// Runs a job on several hosts, from their first answer to the end of all of its processes.
#pragma once

#include "job/launch/handover/job_inputs.hpp"
#include "job/launch/host_list.hpp"

#include <cstdint>
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
  /// Words that start a command on another host (job/launch/host_command.hpp).
  std::vector<std::string> agent{};
  std::vector<JobInput> inputs{};  ///< files of this host that every host needs
  std::filesystem::path run{};     ///< run directory; "" for a job without one
  std::string run_id{};            ///< id that all launches of this run share, and no other launch has
  /// Whether ranks use only the network to which the hosts' names resolve.
  bool chooses_network = true;
  /// Longest time in seconds after which a rank notices that another one is lost.
  double longest_section_seconds = 0;
};

struct LaunchEnd {
  int code = 0;  ///< exit status of the job
  /// Whether the job failed, and starting it again may help (may_start_again() of job_end.hpp).
  bool may_start_again = false;
  std::int64_t saved_step = 0;  ///< last step that the job's ranks have saved; 0: none
};

/// Starts the ranks and waits for their end, which it brings about within 15 s of the first one that fails,
/// on every host that it can reach, and explains once on stderr. The exit status is what the ranks ended
/// with, 70 where a rank, a host or a link was lost. Errors of Monitors (job/launch/monitors.hpp) if too few
/// hosts are ready, and of hand_over().
[[nodiscard]] LaunchEnd run_on_hosts(const HostsLaunch& launch);

}  // namespace sluice
