// The hosts of a launch, as its command line names them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct LaunchHost {
  std::string name;
  int slots = 1;  ///< ranks that it may take
};

/// Hosts of "h1,h2:2": names, each with its slots, 1 where none are given. Slots of a host that is named
/// again add up. Error(kUsage) for a name that is empty, or slots that are no number from 1 on.
[[nodiscard]] std::vector<LaunchHost> parse_hosts(std::string_view list);

/// Hosts of a file with a line for each: "h1 slots=2"; what follows # does not count. Error(kUsage) for a
/// line in another form, Error(kIo) for a file that cannot be read.
[[nodiscard]] std::vector<LaunchHost> read_hostfile(const std::filesystem::path& file);

/// Takes the hosts out of options of mpirun: those of --host LIST and --hostfile FILE, in any of mpirun's
/// spellings. Empty where there are none. Errors as above.
[[nodiscard]] std::vector<LaunchHost> take_hosts(std::vector<std::string>& launcher_options);

/// Ranks that all of the hosts take together.
[[nodiscard]] int total_slots(const std::vector<LaunchHost>& hosts);

/// "h1:1,h2:2", as mpirun takes it.
[[nodiscard]] std::string hosts_text(const std::vector<LaunchHost>& hosts);

}  // namespace sluice
