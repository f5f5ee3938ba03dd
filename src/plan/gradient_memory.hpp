// Memory of a rank's gradient shards between backward and update. Pure.
#pragma once

#include "base/optimizer_mode.hpp"
#include "shard/expert_gradients.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"

#include <cstdint>

namespace sluice {

/// Bytes of gradients on one rank.
struct GradientMemory {
  /// Bytes of all units' gradient shards, kept until the update; 0 if gradients are released.
  std::int64_t shards = 0;
  // Bytes of the float32 sums of one stage, where shards are not float32 themselves:
  std::int64_t dense = 0;    ///< bytes of the largest unit without experts
  std::int64_t experts = 0;  ///< bytes of a layer's experts, or of one expert
  /// bytes of a tied embedding's gradients, kept from the head's backward until the embedding's
  std::int64_t kept = 0;

  std::int64_t whole = 0;  ///< bytes of the float32 parameters' gradients, kept until the update in any mode

  [[nodiscard]] std::int64_t all() const { return shards + dense + experts + kept + whole; }
};

/// Where gradients of experts lie: kInTurn if an expert's gradient is final before the next expert's begins,
/// because its rank computes all of it, in one micro-batch per step.
[[nodiscard]] ExpertGradients expert_gradients(const ParallelDims& dims, std::int64_t batch_sequences,
                                               std::int64_t micro_batch_sequences);

/// Plans the gradient bytes of `rank`. `experts_in_turn`: see expert_gradients().
[[nodiscard]] GradientMemory plan_gradients(const ShardPlan& plan, const StagePlan& stages, int rank,
                                            GradientMode mode, ExpertGradients experts);

/// The unit to which two stages add gradients, because the head is tied; -1: none.
[[nodiscard]] int tied_unit(const StagePlan& stages);

}  // namespace sluice
