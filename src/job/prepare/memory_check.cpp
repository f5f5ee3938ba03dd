#include "job/prepare/memory_check.hpp"

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/memory/memory.hpp"
#include "comm/ranks_text.hpp"
#include "device/memory.hpp"
#include "process/process_limits.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace sluice {

MachineMemory memory_of_this_machine(MemoryPool pool) {
  if (pool == MemoryPool::kReclaimable) return {available_memory_bytes(pool), "available", ""};
  return {available_memory_bytes(pool), "free",
          "; where CPU and GPU share one memory (load.unified_memory) the page cache counts as used: sysctl "
          "vm.drop_caches=1 empties it"};
}

bool has_memory_of_gpu(const DeviceChoice& device) {
  return device.kind == DeviceKind::kCuda && !device.gpus.front().is_integrated;
}

MemoryPool memory_pool(const JobConfig& config, const DeviceChoice& device) {
  const bool is_unified =
      config.load.unified_memory || (device.kind == DeviceKind::kCuda && device.gpus.front().is_integrated);
  return is_unified ? MemoryPool::kUnified : MemoryPool::kReclaimable;
}

std::vector<std::int64_t> growth_limits(Communicator& comm, const JobConfig& config,
                                        std::span<const int> machines, const DeviceChoice& device,
                                        const MemorySample& baseline) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  std::vector<std::int64_t> limits(machines.size(), std::numeric_limits<std::int64_t>::min());
  if (has_memory_of_gpu(device)) {
    limits[rank] = available_device_bytes();
    if (config.memory.limit_bytes > 0) limits[rank] = std::min(limits[rank], config.memory.limit_bytes);
    comm.all_reduce_max(std::span(limits));
    return limits;
  }
  if (config.memory.limit_bytes > 0)
    limits[rank] = std::min(planned_growth_limit(config.memory.limit_bytes),
                            config.memory.limit_bytes - baseline.anonymous_bytes - baseline.shared_bytes);
  else
    limits[rank] = memory_of_this_machine(memory_pool(config, device)).bytes /
                   std::ranges::count(machines, machines[rank]);
  limits[rank] = std::min(limits[rank], left_of_limits(process_limits()));
  comm.all_reduce_max(std::span(limits));
  return limits;
}

std::int64_t planned_growth_limit(std::int64_t memory_limit) {
  constexpr std::int64_t kProcess = 128 * kMiB;
  return memory_limit - kProcess;
}

std::optional<std::int64_t> told_growth_limit(const JobConfig& config,
                                              std::optional<std::int64_t> memory_bytes) {
  if (memory_bytes || config.memory.limit_bytes == 0) return memory_bytes;
  return planned_growth_limit(config.memory.limit_bytes);
}

void require_growth_limits(std::span<const RankMemory> ranks, std::span<const std::int64_t> growth_limits) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].certain() > growth_limits[rank])
      fail({ExitCode::kTooLittle, "job.memory"},
           "memory.limit: rank {} must hold {} at the peak, and the limit leaves {} for it beside its "
           "program: {} too little. See sluice plan for what takes the memory",
           rank, format_bytes(ranks[rank].certain()),
           format_bytes(std::max<std::int64_t>(growth_limits[rank], 0)),
           format_bytes(ranks[rank].certain() - growth_limits[rank]));
}

void require_memory_of_gpu(std::span<const RankMemory> ranks, int rank, std::optional<std::int64_t> told) {
  const std::int64_t needed = ranks[static_cast<std::size_t>(rank)].on_gpu().certain();
  const std::int64_t available = told ? *told : available_device_bytes();
  if (needed > available)
    fail({ExitCode::kTooLittle, "job.memory"},
         "the GPU of rank {} must hold {} at the peak, and has {} left: {} too little. Use more ranks with a "
         "GPU each, or see sluice plan for what takes the memory",
         rank, format_bytes(needed), format_bytes(available), format_bytes(needed - available));
}

std::int64_t left_for_libraries(const RankMemory& rank, std::int64_t growth_limit) {
  const std::int64_t own =
      rank.weights + rank.gradients + rank.optimizer + rank.gather_buffers + rank.gradient_buffer;
  return std::max<std::int64_t>(growth_limit - own, 0);
}

void require_memory(std::span<const RankMemory> ranks, std::span<const int> machines, int machine,
                    const MachineMemory& memory) {
  std::int64_t needed = 0;
  std::vector<int> neighbours;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (machines[rank] != machine) continue;
    needed += ranks[rank].certain();
    neighbours.push_back(static_cast<int>(rank));
  }
  if (needed > memory.bytes)
    fail(
        {ExitCode::kTooLittle, "job.memory"},
        "the machine of {} must hold {} at the peak, and has {} {}: {} too little. Use more machines, or see "
        "sluice plan for what takes the memory{}",
        ranks_text(std::move(neighbours)), format_bytes(needed), format_bytes(memory.bytes), memory.kind,
        format_bytes(needed - memory.bytes), memory.hint);
}

}  // namespace sluice
