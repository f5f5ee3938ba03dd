// Memory for a rank's summed gradients, for the whole step or until each is used.
#pragma once

#include "plan/gradient_memory.hpp"
#include "shard/arena.hpp"
#include "train/optimizer.hpp"

#include <optional>

namespace sluice {

class GradientStore {
 public:
  /// Allocates as plan_gradients() says, in `memory`, and nothing after that. `plan` must outlive the store.
  GradientStore(const ShardPlan& plan, const StagePlan& stages, int rank, GradientMode mode,
                ExpertGradients experts, MemoryKind memory);

  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] MemoryKind memory() const { return memory_; }
  /// Whether experts use the memory for their gradients in turn, as in ExpertGradients::kInTurn.
  [[nodiscard]] bool has_experts_in_turn() const { return has_experts_in_turn_; }

  /// Float32 sums of this rank's shard of a unit; of one expert if the unit has experts and
  /// has_experts_in_turn(). Unless all shards are float32, the next stage uses the memory again, except for a
  /// tied embedding and ShardPlan::whole_unit().
  [[nodiscard]] float* sums(int unit) const;
  /// Rounds the sums of some elements of a unit to bfloat16, into the shards; those of float32 parameters stay
  /// as they are.
  void keep_rounded(const GradientPart& sums);
  /// Gradients of a unit's shard that are kept until the update; not for released gradients.
  [[nodiscard]] GradientPart kept(int unit) const;
  /// Shards of all gradients. Error(kInternal) if gradients are released.
  [[nodiscard]] const ShardArena& shards() const;

 private:
  const ShardPlan& plan_;
  int rank_;
  GradientMode mode_;
  MemoryKind memory_;
  bool has_experts_in_turn_;
  int tied_;
  std::optional<ShardArena> shards_;
  MemoryBlock dense_, experts_, kept_, whole_;
};

}  // namespace sluice
