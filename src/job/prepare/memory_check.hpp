// Whether a job fits the memory that is there, before any of it is taken.
#pragma once

#include "base/memory.hpp"
#include "comm/communicator.hpp"
#include "config/job_config.hpp"
#include "job/prepare/device_choice.hpp"
#include "plan/memory_plan.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Memory that a machine has for its ranks.
struct MachineMemory {
  std::int64_t bytes = 0;
  std::string kind;  ///< "available", for messages
  std::string hint;  ///< further advice, or ""
};

/// Memory that this machine has left.
[[nodiscard]] MachineMemory memory_of_this_machine(MemoryPool pool);

/// Whether a rank's weights and what it computes lie in a GPU's memory, which is not the machine's.
[[nodiscard]] bool has_memory_of_gpu(const DeviceChoice& device);
/// Whether the machine's memory is the GPU's too, by load.unified_memory or as `device` tells.
[[nodiscard]] MemoryPool memory_pool(const JobConfig& config, const DeviceChoice& device = {});

/// Bytes that each rank may hold above its `baseline`: of memory.limit, or else an equal part of what its
/// node has left now; negative where the process alone takes more. On a GPU with memory of its own: of that,
/// what is left. `nodes`: the node of each rank. The same on every rank. Collective over `comm`.
[[nodiscard]] std::vector<std::int64_t> growth_limits(Communicator& comm, const JobConfig& config,
                                                      std::span<const int> nodes, const DeviceChoice& device,
                                                      const MemorySample& baseline);

/// Bytes by which a process that has not begun may grow within `memory_limit`. What a process takes before it
/// sees a model is known once it runs; this is what it takes on an ordinary machine.
[[nodiscard]] std::int64_t planned_growth_limit(std::int64_t memory_limit);

/// The limit that a command plans with which cannot ask the ranks: `memory_bytes` if it was given, or of
/// memory.limit; nothing if neither says.
[[nodiscard]] std::optional<std::int64_t> told_growth_limit(const JobConfig& config,
                                                            std::optional<std::int64_t> memory_bytes);

/// Parts that have to fit the memory that a command is told ranks have: with wants_gpus() that of their GPUs.
[[nodiscard]] std::vector<RankMemory> part_that_must_fit(std::vector<RankMemory> ranks,
                                                         const JobConfig& config);

/// Error(kTooLittle) if a rank will for certain grow by more than its limit; each has an entry for every
/// rank.
void require_growth_limits(std::span<const RankMemory> ranks, std::span<const std::int64_t> growth_limits);

/// Error(kTooLittle) if `rank` will for certain hold more than its GPU has left, which has memory of its own.
void require_memory_of_gpu(std::span<const RankMemory> ranks, int rank);

/// Bytes on the GPU that libraries may take on a rank that may grow by `growth_limit` there, besides what it
/// allocates itself.
[[nodiscard]] std::int64_t left_for_libraries(const RankMemory& rank, std::int64_t growth_limit);

/// Error(kTooLittle) if the ranks on `node` will for certain hold more than the machine has. `ranks` has an
/// entry for each of `nodes`, which number the machine of each rank.
void require_memory(std::span<const RankMemory> ranks, std::span<const int> nodes, int node,
                    const MachineMemory& machine);

}  // namespace sluice
