// Whether a job fits the memory that is there, before any of it is taken.
#pragma once

#include "base/memory.hpp"
#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "plan/memory_plan.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// What a machine has for the ranks on it.
struct MachineMemory {
  std::int64_t bytes = 0;
  std::string kind;  ///< "available", for messages
  std::string hint;  ///< what may help besides, or ""
};

/// What this machine has left. Unified memory counts the page cache as used.
[[nodiscard]] MachineMemory memory_of_this_machine(const LoadSettings& load);

/// Bytes that each rank may hold above its `baseline`: of memory.limit, or else an equal part of what its node has
/// left now. `nodes`: the node of each rank. The same on every rank. Collective over `comm`.
[[nodiscard]] std::vector<std::int64_t> growth_limits(Communicator& comm, const JobConfig& config,
                                                      std::span<const int> nodes,
                                                      const MemorySample& baseline);

/// Of a process that has not begun: what is left of `memory_limit` bytes for it to grow by. What a process takes
/// before it sees a model is known once it runs; this is what it takes on an ordinary machine.
[[nodiscard]] std::int64_t planned_growth_limit(std::int64_t memory_limit);

/// The limit that a command plans with which cannot ask the ranks: `memory_bytes` if it was given, or of memory.limit;
/// nothing if neither says.
[[nodiscard]] std::optional<std::int64_t> told_growth_limit(const JobConfig& config,
                                                            std::optional<std::int64_t> memory_bytes);

/// Error(kTooLittle) if a rank will for certain grow by more than its limit; each has an entry for every rank.
void require_growth_limits(std::span<const RankMemory> ranks, std::span<const std::int64_t> growth_limits);

/// Error(kTooLittle) if the ranks on `node` will for certain hold more than the machine has. `ranks` has an
/// entry for each of `nodes`, which number the machine of each rank.
void require_memory(std::span<const RankMemory> ranks, std::span<const int> nodes, int node,
                    const MachineMemory& machine);

}  // namespace sluice
