#include "job/plan/machine.hpp"

#include "base/error.hpp"
#include "device/devices.hpp"
#include "job/prepare/memory_check.hpp"
#include "process/process_limits.hpp"

#include <algorithm>

namespace sluice {
namespace {

/// Device that a run would choose here: a GPU for each rank if the job asks for GPUs, or takes what is there and finds
/// one. Without a GPU here one of unknown memory, 0 bytes, is assumed.
DeviceChoice assumed_device(const JobConfig& config, int ranks) {
  const bool may_use = config.device.kind != DeviceKind::kCpu && has_cuda();
  const std::vector<Gpu> found = may_use ? list_gpus().list : std::vector<Gpu>();
  const bool takes_found = !found.empty() && config.job.kind != JobKind::kExport;
  if (!wants_gpus(config) && !takes_found) return {};
  const Gpu gpu = found.empty() ? Gpu{} : found.front();
  return {DeviceKind::kCuda, std::vector<Gpu>(static_cast<std::size_t>(ranks), gpu), ""};
}

std::int64_t assumed_limit(const JobConfig& config, const Machine& machine, int sharing_ranks,
                           std::optional<std::int64_t> memory_bytes) {
  if (const auto told = told_growth_limit(config, memory_bytes)) return *told;
  if (has_memory_of_gpu(machine.device)) return machine.device.gpus.front().memory_bytes;
  const std::int64_t available = memory_of_this_machine(memory_pool(config, machine.device)).bytes;
  return std::min(available / sharing_ranks, left_of_limits(process_limits()));
}

}  // namespace

bool Machine::has_several_nodes() const { return std::ranges::max(nodes) > 0; }

std::int64_t Machine::smallest_limit() const { return std::ranges::min(growth_limits); }

Machine Machine::with_ranks(int ranks) const {
  const int of_a_node = static_cast<int>(std::ranges::count(nodes, nodes.front()));
  Machine more = *this;
  more.nodes = shared_nodes(ranks, (ranks + of_a_node - 1) / of_a_node);
  more.machines = more.nodes;
  more.growth_limits.assign(static_cast<std::size_t>(ranks), smallest_limit());
  if (!device.gpus.empty()) more.device.gpus.assign(static_cast<std::size_t>(ranks), device.gpus.front());
  return more;
}

Machine assumed_machine(const JobConfig& config, const MachineArguments& told) {
  const int nodes = told.nodes.value_or(told.ranks);
  if (nodes > told.ranks)
    fail(ExitCode::kUsage, "--nodes: found {}, expected at most {}, as each node has a rank", nodes,
         told.ranks);
  const int sharing_ranks = (told.ranks + nodes - 1) / nodes;
  Machine machine;
  machine.told_bytes = told.memory_bytes;
  machine.nodes = machine.machines = shared_nodes(told.ranks, nodes);
  machine.device = assumed_device(config, told.ranks);
  machine.threads = told.threads.value_or(
      threads_per_rank(config.parallel.threads, usable_cores(), sharing_ranks, most_threads()));
  machine.growth_limits.assign(machine.nodes.size(),
                               assumed_limit(config, machine, sharing_ranks, told.memory_bytes));
  return machine;
}

std::vector<int> shared_nodes(int ranks, int nodes) {
  std::vector<int> of_rank;
  for (std::int64_t rank = 0; rank < ranks; ++rank) of_rank.push_back(static_cast<int>(rank * nodes / ranks));
  return of_rank;
}

}  // namespace sluice
