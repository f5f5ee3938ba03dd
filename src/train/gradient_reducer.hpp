// From whole-unit gradients on every rank to summed gradient shards on their owners.
#pragma once

#include "comm/communicator.hpp"
#include "device/memory.hpp"
#include "model/parameter_views.hpp"
#include "shard/arena.hpp"
#include "shard/stage_plan.hpp"

#include <vector>

namespace sluice {

/// One float32 buffer of the largest stage, allocated once, receives a stage's gradients; reduce() sums them
/// over the ranks into the gradient arena. A unit may be reduced more than once in a step (a tied embedding):
/// its parts add up.
class GradientReducer {
 public:
  /// All references must outlive the reducer. With one rank there is no buffer: gradients are made in the
  /// arena.
  GradientReducer(Communicator& comm, const StagePlan& stages, ParameterViews& views, ShardArena& gradients);

  /// The gradients in the arena are those of an earlier step from now on.
  void begin_step();
  /// Points the gradient views of a stage's units at zeros.
  void open(const Stage& stage);
  /// Collective over the communicator. Adds what open()'s views received, summed over ranks, to the arena;
  /// unbinds them.
  void reduce(const Stage& stage);

 private:
  void reduce_unit(int unit, float* whole);

  Communicator& comm_;
  ParameterViews& views_;
  ShardArena& gradients_;
  MemoryBlock buffer_;
  std::vector<bool> has_gradient_;  ///< one per unit: reduced before in this step
};

}  // namespace sluice
