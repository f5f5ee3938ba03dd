// Memory of a rank's gradient shards between backward and update. Pure.
#pragma once

#include "base/optimizer_mode.hpp"
#include "shard/expert_gradients.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"

#include <cstdint>

namespace sluice {

/// Bytes of one rank.
struct GradientMemory {
  std::int64_t shards = 0;  ///< bytes of all units' gradient shards until the update; 0 if released
  // Float32 sums of one stage, where shards are not float32 themselves:
  std::int64_t dense = 0;    ///< the largest unit but for experts
  std::int64_t experts = 0;  ///< bytes of a layer's experts, or of one of them
  std::int64_t kept = 0;     ///< bytes of a tied embedding, from the head's backward until its own

  [[nodiscard]] std::int64_t all() const { return shards + dense + experts + kept; }
};

/// kInTurn where an expert's gradient is final before that of the next one is begun: its own rank makes all
/// of it, and in one micro-batch a step.
[[nodiscard]] ExpertGradients expert_gradients(const ParallelDims& dims, std::int64_t batch_sequences,
                                               std::int64_t micro_batch_sequences);

/// Bytes of the gradient shards of `rank`. `experts_in_turn`: see finishes_experts_in_turn().
[[nodiscard]] GradientMemory plan_gradients(const ShardPlan& plan, const StagePlan& stages, int rank,
                                            GradientMode mode, ExpertGradients experts);

/// The unit that two stages add gradients to, of a tied head; -1 for none.
[[nodiscard]] int tied_unit(const StagePlan& stages);

}  // namespace sluice
