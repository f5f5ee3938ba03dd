// Mark of the processes of a launch: its id, in a setting of Open MPI's form that no part of Open MPI reads.
// mpirun passes it to its daemons on their command lines, and to ranks in their environment.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Name of the setting that holds the mark.
inline constexpr std::string_view kLaunchMark = "sluice_launch";
/// Name of the environment variable that holds the mark in ranks.
inline constexpr const char* kLaunchVariable = "OMPI_MCA_sluice_launch";

/// Id that no other launch has: the run's id, with a part of its own.
[[nodiscard]] std::string new_launch_id(std::string_view run_id);

/// Processes on this machine of launches whose id begins with `id`, without this one: ranks and what they
/// have started, daemons, mpirun.
struct MarkedProcesses {
  std::vector<pid_t> all;
  int ranks = 0;  ///< number of processes that are ranks
};
[[nodiscard]] MarkedProcesses marked_processes(std::string_view id);

/// Kills marked_processes(id) until none is left, for at most three seconds; returns the number killed.
int end_marked_processes(std::string_view id);

}  // namespace sluice
