#include "plan/gradient_memory.hpp"

#include "base/dtype.hpp"
#include "base/round.hpp"

#include <algorithm>

namespace sluice {

ExpertGradients expert_gradients(const ParallelDims& dims, std::int64_t batch_sequences,
                                 std::int64_t micro_batch_sequences) {
  const bool is_alone = dims.groups() == 1 && dims.replicas == 1;
  const bool in_one = divide_up(batch_sequences, std::int64_t{dims.ranks()}) <= micro_batch_sequences;
  return is_alone && in_one ? ExpertGradients::kInTurn : ExpertGradients::kTogether;
}

int tied_unit(const StagePlan& stages) {
  for (const int unit : stages.embed.units)
    if (std::ranges::find(stages.head.units, unit) != stages.head.units.end()) return unit;
  return -1;
}

GradientMemory plan_gradients(const ShardPlan& plan, const StagePlan& stages, int rank, GradientMode mode,
                              ExpertGradients experts) {
  constexpr std::int64_t kFloat = 4;
  GradientMemory memory;
  memory.whole = plan.layouts().trained_buffers.count() * kFloat;
  if (mode != GradientMode::kRelease)
    memory.shards = plan.trained_elements(rank) *
                    size_of(mode == GradientMode::kFloat32 ? DType::kFloat32 : DType::kBFloat16);
  if (mode == GradientMode::kFloat32) return memory;
  const int tied = tied_unit(stages);
  for (int unit = 0; unit < static_cast<int>(plan.layouts().units.size()); ++unit) {
    if (!plan.is_trained(unit)) continue;
    const std::int64_t bytes = plan.owned(unit, rank).count() * kFloat;
    if (unit == tied) {
      memory.kept = bytes;
    } else if (!plan.has_experts(unit)) {
      memory.dense = std::max(memory.dense, bytes);
    } else if (experts == ExpertGradients::kInTurn) {
      const FlatLayout& layout = plan.layouts().units[static_cast<std::size_t>(unit)];
      memory.experts = std::max(memory.experts, layout.expert_begin(1) * kFloat);
    } else {
      memory.experts = std::max(memory.experts, bytes);
    }
  }
  return memory;
}

}  // namespace sluice
