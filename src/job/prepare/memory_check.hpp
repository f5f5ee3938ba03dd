// Checks whether a job fits the available memory, before it takes any.
#pragma once

#include "base/memory/memory.hpp"
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
  std::string kind;  ///< kind of the memory for messages: "available"
  std::string hint;  ///< further advice, or ""
};

/// Memory that is available on this machine.
[[nodiscard]] MachineMemory memory_of_this_machine(MemoryPool pool);

/// Whether a rank's weights and computation lie in a GPU's memory that is separate from the machine's.
[[nodiscard]] bool has_memory_of_gpu(const DeviceChoice& device);
/// Whether the machine's memory is also the GPU's, by load.unified_memory or by `device`.
[[nodiscard]] MemoryPool memory_pool(const JobConfig& config, const DeviceChoice& device = {});

/// Collective over `comm`. Bytes that each rank may hold above its `baseline`: planned_growth_limit() of
/// memory.limit, or an equal part of what its machine has available; negative if the process alone takes more. On a
/// GPU with its own memory: what that has available. `machines`: machine of each rank. The same on every rank.
[[nodiscard]] std::vector<std::int64_t> growth_limits(Communicator& comm, const JobConfig& config,
                                                      std::span<const int> machines,
                                                      const DeviceChoice& device,
                                                      const MemorySample& baseline);

/// Bytes by which a process may grow within `memory_limit`: what an ordinary process has before it sees a model is left
/// for it, whether or not it has begun, so that commands and runs plan alike. A process that has more than that when
/// it runs has the less left.
[[nodiscard]] std::int64_t planned_growth_limit(std::int64_t memory_limit);

/// Growth limit with which a command plans if it cannot ask the ranks: from `memory_bytes`, or else
/// memory.limit; nothing if neither is given.
[[nodiscard]] std::optional<std::int64_t> told_growth_limit(const JobConfig& config,
                                                            std::optional<std::int64_t> memory_bytes);

/// Error(kTooLittle) if a rank will certainly grow by more than its limit; both lists have an entry for every
/// rank.
void require_growth_limits(std::span<const RankMemory> ranks, std::span<const std::int64_t> growth_limits);

/// Error(kTooLittle) if `rank` will certainly hold more than the `available` bytes of its GPU, which has its own
/// memory: those that are left on this process's GPU if not given.
void require_memory_of_gpu(std::span<const RankMemory> ranks, int rank,
                           std::optional<std::int64_t> available = std::nullopt);

/// Bytes of GPU memory that libraries may take on a rank with `growth_limit`, besides its own allocations.
[[nodiscard]] std::int64_t left_for_libraries(const RankMemory& rank, std::int64_t growth_limit);

/// Error(kTooLittle) if the ranks on `machine` will certainly hold more than the machine has. `ranks` has an
/// entry for each of `machines`, the machine of each rank.
void require_memory(std::span<const RankMemory> ranks, std::span<const int> machines, int machine,
                    const MachineMemory& memory);

}  // namespace sluice
