// The machines that a job is planned for: measured by the ranks of a run, assumed by commands.
#pragma once

#include "config/job_config.hpp"
#include "job/prepare/device_choice.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace sluice {

/// The machines of a job's ranks, as far as its plan depends on them. Vectors have an entry for each rank planned for,
/// which in a command are more than there are processes.
struct Machine {
  std::vector<int> nodes;     ///< node of each rank: ranks of one machine that see the same files
  std::vector<int> machines;  ///< machine of each rank, whose memory its ranks share
  DeviceChoice device{};      ///< device that the ranks compute on
  int threads = 1;            ///< compute threads of a rank
  std::vector<std::int64_t> growth_limits;  ///< bytes that each rank may hold above its process's own memory
  std::optional<int> own{};  ///< rank of this process in a run; nothing in a command, which is none
  std::optional<std::int64_t> told_bytes{};  ///< memory of a rank as a command is told, bytes

  /// Number of ranks planned for.
  [[nodiscard]] int ranks() const { return static_cast<int>(nodes.size()); }
  [[nodiscard]] bool has_several_nodes() const;
  /// Bytes that the rank with the least may hold above its process's own memory.
  [[nodiscard]] std::int64_t smallest_limit() const;
  /// The same machines with `ranks` ranks, as many on each node as now.
  [[nodiscard]] Machine with_ranks(int ranks) const;
};

/// What a command is told of the machines that it plans for.
struct MachineArguments {
  int ranks = 1;
  std::optional<int> nodes{};    ///< number of nodes, which share the ranks out; nothing: one for each rank
  std::optional<int> threads{};  ///< compute threads of a rank; nothing: as a run that starts here
  std::optional<std::int64_t> memory_bytes{};  ///< memory of one rank; nothing: as a run that starts here
};

/// The machines that a run which starts here would find, but for what the arguments tell. Error(kUsage) for more nodes
/// than ranks.
[[nodiscard]] Machine assumed_machine(const JobConfig& config, const MachineArguments& told);

/// Nodes of `ranks` ranks that `nodes` nodes share out in blocks of consecutive ranks.
[[nodiscard]] std::vector<int> shared_nodes(int ranks, int nodes);

}  // namespace sluice
