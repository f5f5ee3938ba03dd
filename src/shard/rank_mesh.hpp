// The ranks of a job, divided as the shard plan says.
#pragma once

#include "comm/communicator.hpp"
#include "shard/shard_plan.hpp"

#include <memory>

namespace sluice {

/// Communicators over the world, over this rank's group, and over the replicas of its experts. Operations
/// that overlap use separate ones: for gathering, for reducing and for rows of tokens.
class RankMesh {
 public:
  /// Collective over `world`, which must outlive the mesh; its deadline holds for the communicators made from
  /// it as well.
  RankMesh(Communicator& world, const ParallelDims& dims);

  [[nodiscard]] const ParallelDims& dims() const { return dims_; }
  [[nodiscard]] Communicator& world() const { return world_; }
  /// The group of this rank: ranks that have all experts between them; null if each rank has them all.
  [[nodiscard]] Communicator* group() const { return group_; }
  /// The ranks that hold the same part of a unit and own shards of it, in the order of ShardPlan::counts().
  /// Requires more than one such rank.
  [[nodiscard]] Communicator& sharers(const ShardPlan& plan, int unit) const;
  /// Communicator over the ranks that share the unit, for reductions.
  [[nodiscard]] Communicator& reducers(const ShardPlan& plan, int unit) const;
  /// Bytes that all communicators of the mesh have moved since they were made.
  [[nodiscard]] Traffic traffic() const;

 private:
  Communicator& world_;
  ParallelDims dims_;
  /// Communicators of the group and of the replicas; null where they are the world.
  std::unique_ptr<Communicator> own_group_, own_replicas_;
  /// Communicators for reductions; null where another communicator of the mesh serves.
  std::unique_ptr<Communicator> reducing_world_, reducing_replicas_;
  Communicator* group_ = nullptr;
  Communicator* replicas_ = nullptr;
};

}  // namespace sluice
