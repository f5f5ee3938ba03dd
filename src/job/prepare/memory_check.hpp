// Whether a job fits the memory that is there, before any of it is taken.
#pragma once

#include "config/job_config.hpp"
#include "plan/memory_plan.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// What a machine has for the ranks on it.
struct MachineMemory {
  std::int64_t bytes = 0;
  std::string kind;  ///< "available", for messages
  std::string hint;  ///< what may help besides, or ""
};

/// What this machine has left. Unified memory counts the page cache as used.
[[nodiscard]] MachineMemory memory_of_this_machine(const LoadSettings& load);

/// Error(kTooLittle) if the ranks on `node` will for certain hold more than the machine has. `ranks` has an
/// entry for each of `nodes`, which number the machine of each rank.
void require_memory(std::span<const RankMemory> ranks, std::span<const int> nodes, int node,
                    const MachineMemory& machine);

}  // namespace sluice
