#include "job/plan/plan_checks.hpp"

#include "base/error.hpp"
#include "comm/run_together.hpp"
#include "job/plan/resume_point.hpp"
#include "job/prepare/memory_check.hpp"
#include "job/prepare/target_place.hpp"

#include <algorithm>
#include <array>
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

/// A node or machine, and the bytes that its ranks need together.
struct Need {
  int number = 0;
  std::int64_t bytes = 0;
};

/// Need of the node or machine that a check looks at, of those in `of_rank`, which has one for each rank: this
/// rank's, or in a command the one that needs most. `bytes_of`: bytes that a rank needs.
template <class BytesOf>
Need looked_at(const JobPlan& plan, const std::vector<int>& of_rank, BytesOf bytes_of) {
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(std::ranges::max(of_rank)) + 1);
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
    bytes[static_cast<std::size_t>(of_rank[rank])] += bytes_of(plan.ranks[rank]);
  const int number = plan.machine.own ? of_rank[static_cast<std::size_t>(*plan.machine.own)]
                                      : static_cast<int>(std::ranges::max_element(bytes) - bytes.begin());
  return {number, bytes[static_cast<std::size_t>(number)]};
}

void require_machine_memory(const JobPlan& plan) {
  const Machine& machine = plan.machine;
  const bool has_gpu = has_memory_of_gpu(machine.device);
  std::vector<RankMemory> ranks = plan.ranks;
  if (has_gpu) std::ranges::transform(ranks, ranks.begin(), &RankMemory::beside_gpu);
  const int number = looked_at(plan, machine.machines, [&](const RankMemory& rank) {
                       return has_gpu ? rank.beside_gpu().certain() : rank.certain();
                     }).number;
  const bool is_told = machine.told_bytes && !has_gpu;
  require_memory(ranks, machine.machines, number,
                 is_told ? MachineMemory{*machine.told_bytes * std::ranges::count(machine.machines, number),
                                         "(--memory)", ""}
                         : memory_of_this_machine(memory_pool(plan.config(), machine.device)));
}

void check_memory(const JobPlan& plan) {
  if (!plan.lack.empty()) return;  // which check_fit() tells
  if (plan.config().memory.limit_bytes > 0) require_growth_limits(plan.ranks, plan.machine.growth_limits);
  require_gpu_memory(plan);
  require_machine_memory(plan);
}

void check_offload_room(const JobPlan& plan) {
  if (plan.config().memory.offload != Offload::kDisk) return;
  const std::int64_t needed = looked_at(plan, plan.machine.nodes, [](const RankMemory& rank) {
                                return rank.offload.file_bytes();
                              }).bytes;
  if (needed > 0) require_offload_room(plan.config(), needed);
}

void check_frozen(const JobPlan& plan) {
  if (plan.config().parallel.frozen == FrozenWeights::kKept && plan.computes_on_gpus())
    fail(
        {ExitCode::kBadConfig, "config.contradiction"},
        "parallel.frozen: found \"kept\" with weights on GPUs, expected \"auto\" or \"gathered\": only ranks that "
        "compute on processors keep frozen weights");
}

void check_formats(const JobPlan& plan) {
  const ParallelSettings& parallel = plan.config().parallel;
  if (!plan.computes_on_gpus()) return;
  const auto expect = [](bool holds, std::string_view key, std::string_view found,
                         std::string_view expected) {
    if (!holds)
      fail(
          {ExitCode::kBadConfig, "config.contradiction"},
          "parallel.{}: found \"{}\" with weights on GPUs, expected \"{}\": only ranks that compute on processors "
          "round what they send",
          key, found, expected);
  };
  expect(parallel.reduce == DType::kFloat32, "reduce", "bfloat16", "float32");
  expect(parallel.dispatch == TokenFormat::kDType, "dispatch", "int8", "dtype");
}

void check_vocabulary(const JobPlan& plan) {
  if (plan.config().parallel.vocabulary == VocabularySharing::kSharded && plan.computes_on_gpus())
    fail(
        {ExitCode::kBadConfig, "config.contradiction"},
        "parallel.vocabulary: found \"sharded\" with weights on GPUs, expected \"auto\" or \"gathered\": only ranks "
        "that compute on processors have embedding and head between them");
}

void check_replicas(const JobPlan& plan) {
  if (plan.config().parallel.replicas > 1 && plan.computes_on_gpus())
    fail(
        {ExitCode::kBadConfig, "config.contradiction"},
        "parallel.replicas: found {} with weights on GPUs, expected 1: only ranks that compute on processors hold "
        "several copies of the model",
        plan.config().parallel.replicas);
}

void check_device(const JobPlan& plan) {
  if (!plan.computes_on_gpus()) return;
  const std::vector<AttentionKind>& mixers = plan.blueprint->model.config.attention;
  for (const auto& [mixer, name] : {std::pair(AttentionKind::kMamba2, "Mamba-2"),
                                    std::pair(AttentionKind::kKimiDelta, "Kimi delta attention")})
    if (std::ranges::find(mixers, mixer) != mixers.end())
      fail({ExitCode::kBadConfig, "config.contradiction"},
           "device.kind: found weights on GPUs, expected \"cpu\": {}, which this model has, is computed by "
           "processors alone",
           name);
}

constexpr std::array<PlanCheck, 9> kChecks{{{"optimizer.fit", check_fit},
                                            {"device.kind", check_device},
                                            {"parallel.replicas", check_replicas},
                                            {"parallel.frozen", check_frozen},
                                            {"parallel.reduce", check_formats},
                                            {"parallel.vocabulary", check_vocabulary},
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
