#include "job/prepare/memory_check.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "comm/ranks_text.hpp"

#include <utility>
#include <vector>

namespace sluice {

MachineMemory memory_of_this_machine(const LoadSettings& load) {
  if (!load.unified_memory) return {available_memory_bytes(MemoryPool::kReclaimable), "available", ""};
  return {available_memory_bytes(MemoryPool::kUnified), "free",
          "; load.unified_memory counts the page cache as used: sysctl vm.drop_caches=1 empties it"};
}

void require_memory(std::span<const RankMemory> ranks, std::span<const int> nodes, int node,
                    const MachineMemory& machine) {
  std::int64_t needed = 0;
  std::vector<int> neighbours;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (nodes[rank] != node) continue;
    needed += ranks[rank].certain();
    neighbours.push_back(static_cast<int>(rank));
  }
  if (needed > machine.bytes)
    fail(
        ExitCode::kTooLittle,
        "the machine of {} must hold {} at the peak, and has {} {}: {} too little. Use more machines, or see "
        "sluice plan for what takes the memory{}",
        ranks_text(std::move(neighbours)), format_bytes(needed), format_bytes(machine.bytes), machine.kind,
        format_bytes(needed - machine.bytes), machine.hint);
}

}  // namespace sluice
