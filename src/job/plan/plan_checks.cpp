#include "job/plan/plan_checks.hpp"

#include "base/error.hpp"
#include "comm/run_together.hpp"
#include "job/plan/resume_point.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/target_place.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace sluice {
namespace {

void check_fit(const JobPlan& plan) {
  if (!plan.lack.empty()) fail({ExitCode::kTooLittle, "job.memory"}, "{}", plan.lack);
}

void check_resumed_model(const JobPlan& plan) {
  if (plan.resumed) require_same_model(plan.resumed->found, *plan.blueprint);
}

void require_gpu_memory(const JobPlan& plan) {
  const Machine& machine = plan.machine;
  if (!has_memory_of_gpu(machine.device)) return;
  if (machine.own) return require_memory_of_gpu(plan.ranks, *machine.own);
  const bool is_known = machine.told_bytes || machine.device.gpus.front().memory_bytes > 0;
  for (int rank = 0; is_known && rank < machine.ranks(); ++rank)
    require_memory_of_gpu(plan.ranks, rank, machine.growth_limits[static_cast<std::size_t>(rank)]);
}

/// Numbers in `of_rank`, of a node or machine for each rank, that a check looks at: this rank's, or all.
std::set<int> looked_at(const Machine& machine, const std::vector<int>& of_rank) {
  if (machine.own) return {of_rank[static_cast<std::size_t>(*machine.own)]};
  return {of_rank.begin(), of_rank.end()};
}

void require_machine_memory(const JobPlan& plan) {
  const Machine& machine = plan.machine;
  const bool has_gpu = has_memory_of_gpu(machine.device);
  std::vector<RankMemory> ranks = plan.ranks;
  if (has_gpu) std::ranges::transform(ranks, ranks.begin(), &RankMemory::beside_gpu);
  for (const int number : looked_at(machine, machine.machines)) {
    MachineMemory memory = memory_of_this_machine(memory_pool(plan.config(), machine.device));
    if (machine.told_bytes && !has_gpu)
      memory = {*machine.told_bytes * std::ranges::count(machine.machines, number), "(--memory)", ""};
    require_memory(ranks, machine.machines, number, memory);
  }
}

void check_memory(const JobPlan& plan) {
  if (!plan.lack.empty()) return;  // which check_fit() tells
  if (plan.config().memory.limit_bytes > 0) require_growth_limits(plan.ranks, plan.machine.growth_limits);
  require_gpu_memory(plan);
  require_machine_memory(plan);
}

void check_offload_room(const JobPlan& plan) {
  if (plan.config().memory.offload != Offload::kDisk) return;
  std::int64_t most = 0;
  for (const int node : looked_at(plan.machine, plan.machine.nodes)) {
    std::int64_t needed = 0;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
      if (plan.machine.nodes[rank] == node) needed += plan.ranks[rank].offload.file_bytes();
    most = std::max(most, needed);
  }
  if (most > 0) require_offload_room(plan.config(), most);
}

constexpr std::array<PlanCheck, 4> kChecks{{{"optimizer.fit", check_fit},
                                            {"checkpoint.resume", check_resumed_model},
                                            {"memory", check_memory},
                                            {"memory.offload_path", check_offload_room}}};

}  // namespace

std::span<const PlanCheck> plan_checks() { return kChecks; }

void require_sound(Communicator& comm, const JobPlan& plan) {
  run_together(comm, [&] {
    for (const PlanCheck& one : kChecks) one.check(plan);
  });
}

}  // namespace sluice
