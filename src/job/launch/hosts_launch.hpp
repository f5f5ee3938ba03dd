// A job on several hosts, from their first answer to the end of all of its processes.
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
  int ranks = 0;        ///< ranks of the job, where all hosts are ready
  int least_slots = 0;  ///< slots that suffice to start without hosts that do not answer
  /// Options of mpirun, but for those that tell ranks and hosts.
  std::vector<std::string> launcher_options{};
  std::vector<std::string> command{};  ///< command that each rank runs
  std::vector<std::string> agent{};    ///< starts a command on another host (job/launch/host_command.hpp)
  std::vector<JobInput> inputs{};      ///< files of this host that every host is to have
  std::filesystem::path run{};         ///< the run directory; "" of a job that has none
  std::string run_id{};                ///< id that all launches of this run share, and no others
  bool chooses_network = true;         ///< whether ranks use what the names of the hosts resolve to alone
  double longest_section_seconds = 0;  ///< the longest time after which a rank finds that another one is lost
};

struct LaunchEnd {
  int code = 0;  ///< the job's exit status
  /// It failed, and starting it again may help (may_start_again() of job_end.hpp).
  bool may_start_again = false;
  std::int64_t saved_step = 0;  ///< number of the last step that its ranks have saved; 0: none
};

/// Starts the ranks and waits for their end, which it brings about within 15 s of the first one that fails,
/// on every host that it can reach, and explains once on stderr. The exit status is what the ranks ended
/// with, 70 where a rank, a host or a link was lost. Errors of Monitors (job/launch/monitors.hpp) if too few
/// hosts are ready, and of hand_over().
[[nodiscard]] LaunchEnd run_on_hosts(const HostsLaunch& launch);

}  // namespace sluice
