// Makes whole units out of the ranks' shards, one stage at a time.
#pragma once

#include "device/memory.hpp"
#include "shard/arena.hpp"
#include "shard/rank_mesh.hpp"
#include "shard/stage_plan.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

/// Holds one gather slot for each unit that a stage can have, allocated once: nothing grows from step to
/// step.
class UnitGatherer {
 public:
  /// `mesh` and `weights` must outlive the gatherer. What a rank owns alone has no slot: the arena holds it.
  UnitGatherer(const RankMesh& mesh, const ShardArena& weights, const StagePlan& stages);

  /// Collective over the world. Gathers what this rank holds of the units of a stage (ShardPlan::held);
  /// returns the first byte of each, in the stage's order. What was gathered before is gone.
  [[nodiscard]] std::vector<std::byte*> gather(const Stage& stage);

  /// The gathered bytes are needed no more. Debug builds fill the slots with NaN, so that a late use shows.
  void release();

 private:
  [[nodiscard]] Work start(int unit, std::byte* out);

  const RankMesh& mesh_;
  const ShardArena& weights_;
  std::vector<MemoryBlock> slots_;
};

}  // namespace sluice
