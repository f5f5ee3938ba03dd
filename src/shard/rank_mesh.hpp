// The ranks of a job, divided as the shard plan says.
#pragma once

#include "comm/communicator.hpp"
#include "shard/rank_sets.hpp"
#include "shard/shard_plan.hpp"

#include <memory>
#include <span>

namespace sluice {

/// Communicators over all ranks, over this rank's set and group, over the replicas of its experts, and over its
/// counterparts in other sets. Operations that overlap use separate ones: for gathering, for reducing and for
/// rows of tokens.
class RankMesh {
 public:
  /// Collective over `all`, which must outlive the mesh; its deadline holds for the communicators made from
  /// it as well.
  RankMesh(Communicator& all, const ParallelDims& dims);

  [[nodiscard]] const ParallelDims& dims() const { return dims_; }
  [[nodiscard]] const RankSets& sets() const { return sets_; }
  /// The group of this rank: ranks that have all experts between them; null if each rank has them all.
  [[nodiscard]] Communicator* group() const { return group_; }
  /// The ranks of the set that hold the same part of a unit and own shards of it, in the order of
  /// ShardPlan::counts(). Requires more than one such rank.
  [[nodiscard]] Communicator& sharers(const ShardPlan& plan, int unit) const;
  /// Communicator over the ranks that share the unit, for reductions.
  [[nodiscard]] Communicator& reducers(const ShardPlan& plan, int unit) const;
  /// Collective over the counterparts. Adds up gradients that are sums of each set, in the order of the sets, so
  /// that all have the same bits; with one set they are sums of all already. If gradients travel as bfloat16, the
  /// sum of each set is rounded to it, and the sum of all once more.
  void sum_over_sets(std::span<float> sums) const;
  /// Bytes that all communicators of the mesh have moved since they were made.
  [[nodiscard]] Traffic traffic() const;

 private:
  ParallelDims dims_;
  RankSets sets_;
  Communicator& set_;
  /// Communicators of the group and of the replicas; null where they are the set.
  std::unique_ptr<Communicator> own_group_, own_replicas_;
  /// Communicators for reductions; null where another communicator of the mesh serves.
  std::unique_ptr<Communicator> reducing_set_, reducing_replicas_;
  Communicator* group_ = nullptr;
  Communicator* replicas_ = nullptr;
};

}  // namespace sluice
