// Hosts of a launch, as its command line names them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct LaunchHost {
  std::string name;
  int slots = 1;  ///< number of ranks that the host may run
};

/// Parses "h1,h2:2": names of hosts with their slots, 1 if not given. Slots of a host that is named again add
/// up. Error(kUsage) for an empty name, or slots that are not a number from 1 on.
[[nodiscard]] std::vector<LaunchHost> parse_hosts(std::string_view list);

/// Reads hosts from a file with a line for each, "h1 slots=2"; # begins a comment. Error(kUsage) for any
/// other line, Error(kIo) for a file that cannot be read.
[[nodiscard]] std::vector<LaunchHost> read_hostfile(const std::filesystem::path& file);

/// Removes hosts from options of mpirun, --host LIST and --hostfile FILE in any spelling, and returns them;
/// empty if there are none. Errors as parse_hosts() and read_hostfile().
[[nodiscard]] std::vector<LaunchHost> take_hosts(std::vector<std::string>& launcher_options);

/// Number of ranks that all hosts together may run.
[[nodiscard]] int total_slots(const std::vector<LaunchHost>& hosts);

/// Hosts as an option of mpirun: "h1:1,h2:2".
[[nodiscard]] std::string hosts_text(const std::vector<LaunchHost>& hosts);

}  // namespace sluice
