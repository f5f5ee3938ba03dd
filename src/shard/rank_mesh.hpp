// The ranks of a job as the plan divides them.
#pragma once

#include "comm/communicator.hpp"
#include "shard/shard_plan.hpp"

#include <memory>

namespace sluice {

/// Communicators over the world, over this rank's group, and over the replicas of its experts. Those for
/// gathering, for reducing and for tokens' rows carry what overlaps.
class RankMesh {
 public:
  /// Collective over `world`, which must outlive the mesh; its deadline holds for the parts too.
  RankMesh(Communicator& world, const ParallelDims& dims);

  [[nodiscard]] const ParallelDims& dims() const { return dims_; }
  [[nodiscard]] Communicator& world() const { return world_; }
  /// The ranks that have all experts between them; null if each has them all.
  [[nodiscard]] Communicator* group() const { return group_; }
  /// The ranks that hold the same part of a unit and own shards of it, in the order of ShardPlan::counts().
  /// There must be more than one.
  [[nodiscard]] Communicator& sharers(const ShardPlan& plan, int unit) const;
  /// Communicator over the ranks that share the unit, for reductions.
  [[nodiscard]] Communicator& reducers(const ShardPlan& plan, int unit) const;
  /// Bytes of all of them since they were made.
  [[nodiscard]] Traffic traffic() const;

 private:
  Communicator& world_;
  ParallelDims dims_;
  /// Communicators of the group and the replicas, where these are not the world.
  std::unique_ptr<Communicator> own_group_, own_replicas_;
  /// Communicators for reductions, where these are not the others.
  std::unique_ptr<Communicator> reducing_world_, reducing_replicas_;
  Communicator* group_ = nullptr;
  Communicator* replicas_ = nullptr;
};

}  // namespace sluice
