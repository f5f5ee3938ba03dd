// A job on several hosts, from their first answer to the end of all of its processes.
#pragma once

#include "job/launch/host_list.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace sluice {

struct HostsLaunch {
  std::vector<LaunchHost> hosts;
  int ranks = 0;
  std::vector<std::string> launcher{};  ///< mpirun and its options, those for the hosts included
  std::vector<std::string> command{};   ///< what each rank runs
  std::vector<std::string> agent{};     ///< starts a command on another host (job/launch/host_monitor.hpp)
  std::filesystem::path run{};          ///< the run directory; "" of a job that has none
  std::string run_id{};                 ///< the same for all launches of this run, and for no others
  bool chooses_network = true;          ///< whether ranks use what the names of the hosts resolve to alone
  double longest_section_seconds = 0;  ///< the longest time after which a rank finds that another one is lost
};

/// Starts the ranks and waits for their end, which it brings about within 15 s of the first one that fails,
/// on every host that it can reach, and explains once on stderr. Returns the job's exit status: what the
/// ranks ended with, 70 where a host or link was lost. Error(kInternal) if a host does not answer within 30
/// s, Error(kBadConfig) if one cannot run this program.
[[nodiscard]] int run_on_hosts(const HostsLaunch& launch);

}  // namespace sluice
