// Memory for a rank's summed gradients: for the whole step, or until each is used.
#pragma once

#include "plan/gradient_memory.hpp"
#include "shard/arena.hpp"
#include "train/optimizer.hpp"

#include <optional>

namespace sluice {

class GradientStore {
 public:
  /// `plan` must outlive the store. Allocates plan_gradients(), and nothing after that.
  GradientStore(const ShardPlan& plan, const StagePlan& stages, int rank, GradientMode mode,
                ExpertGradients experts);

  [[nodiscard]] const ShardPlan& plan() const { return plan_; }
  [[nodiscard]] int rank() const { return rank_; }
  /// Whether there is memory for one expert's gradient at a time alone, as ExpertGradients::kInTurn says.
  [[nodiscard]] bool has_experts_in_turn() const { return has_experts_in_turn_; }

  /// Float32 sums of this rank's shard of a unit; with has_experts_in_turn() and a unit of experts, of one
  /// expert. Unless all shards are float32 it is used again for the next stage, but for a tied embedding.
  [[nodiscard]] float* sums(int unit) const;
  /// Rounds the sums of elements of a unit into the shards, which are bfloat16.
  void keep_rounded(const GradientPart& sums);
  /// What is kept of a unit's shard until the update, unless it is released.
  [[nodiscard]] GradientPart kept(int unit) const;
  /// All of it. Error(kInternal) if shards are released.
  [[nodiscard]] const ShardArena& shards() const;

 private:
  const ShardPlan& plan_;
  int rank_;
  GradientMode mode_;
  bool has_experts_in_turn_;
  int tied_;
  std::optional<ShardArena> shards_;
  MemoryBlock dense_, experts_, kept_;
};

}  // namespace sluice
