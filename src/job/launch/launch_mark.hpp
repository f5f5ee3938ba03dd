// Mark of the processes of one launch: its id, a setting of Open MPI's that no part of Open MPI reads. mpirun
// hands it to its daemons on their command lines and to ranks in their environment.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The setting's name.
inline constexpr std::string_view kLaunchMark = "sluice_launch";
/// The environment variable with the id, in ranks.
inline constexpr const char* kLaunchVariable = "OMPI_MCA_sluice_launch";

/// An id that no other launch has: that of the run, and a part of its own.
[[nodiscard]] std::string new_launch_id(std::string_view run_id);

/// Processes of this machine that belong to a launch whose id begins with `id`, but for this one: ranks with
/// what they have started, daemons, mpirun.
struct MarkedProcesses {
  std::vector<pid_t> all;
  int ranks = 0;  ///< processes that are ranks
};
[[nodiscard]] MarkedProcesses marked_processes(std::string_view id);

/// Kills marked_processes(id) until none is left, for at most three seconds; returns how many it has killed.
int end_marked_processes(std::string_view id);

}  // namespace sluice
