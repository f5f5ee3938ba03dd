// Makes whole units out of the ranks' shards, one stage at a time.
#pragma once

#include "comm/communicator.hpp"
#include "device/memory.hpp"
#include "shard/arena.hpp"
#include "shard/stage_plan.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

/// Holds one gather slot for each unit that a stage can have, allocated once: nothing grows from step to
/// step.
class UnitGatherer {
 public:
  /// `comm`, `weights` and `stages` must outlive the gatherer. With one rank no slot is allocated: the arena
  /// is the unit.
  UnitGatherer(Communicator& comm, const ShardArena& weights, const StagePlan& stages);

  /// Collective over the communicator. Gathers the units of a stage; returns the first byte of each, in the
  /// stage's order. What was gathered before is gone.
  [[nodiscard]] std::vector<std::byte*> gather(const Stage& stage);

  /// The gathered bytes are needed no more. Debug builds fill the slots with NaN, so that a late use shows.
  void release();

 private:
  [[nodiscard]] Work start(int unit, std::byte* out);

  Communicator& comm_;
  const ShardArena& weights_;
  std::vector<MemoryBlock> slots_;
};

}  // namespace sluice
