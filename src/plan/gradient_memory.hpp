// Where a rank's gradient shards are between backward and update. Pure.
#pragma once

#include "base/optimizer_mode.hpp"
#include "shard/shard_plan.hpp"
#include "shard/stage_plan.hpp"

#include <cstdint>

namespace sluice {

/// Bytes of one rank.
struct GradientMemory {
  std::int64_t shards = 0;  ///< of all units, until the update; none if released
  // Float32 sums of one stage, where shards are not float32 themselves:
  std::int64_t dense = 0;    ///< the largest unit but for experts
  std::int64_t experts = 0;  ///< a layer's experts, or one of them
  std::int64_t kept = 0;     ///< a tied embedding, from the head's backward until its own

  [[nodiscard]] std::int64_t all() const { return shards + dense + experts + kept; }
};

/// Whether an expert's gradient is final before that of the next one is begun: its own rank makes all of it, and
/// in one micro-batch a step.
[[nodiscard]] bool finishes_experts_in_turn(const ParallelDims& dims, std::int64_t batch_sequences,
                                            std::int64_t micro_batch_sequences);

[[nodiscard]] GradientMemory plan_gradients(const ShardPlan& plan, const StagePlan& stages, int rank,
                                            GradientMode mode, bool experts_in_turn);

/// The unit that two stages add gradients to, of a tied head; -1 for none.
[[nodiscard]] int tied_unit(const StagePlan& stages);

}  // namespace sluice
