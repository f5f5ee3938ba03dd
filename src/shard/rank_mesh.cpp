#include "shard/rank_mesh.hpp"

#include "base/error.hpp"

namespace sluice {

RankMesh::RankMesh(Communicator& world, const ParallelDims& dims) : world_(world), dims_(dims) {
  SLUICE_ASSERT(world.size() == dims.world, "a shard plan for {} ranks is used by {} ranks", dims.world,
                world.size());
  if (dims.expert_parallel == 1) {
    replicas_ = &world;
  } else if (dims.groups() == 1) {
    own_group_ = world.duplicate_for_overlap();
    group_ = own_group_ ? own_group_.get() : &world;
  } else {
    own_group_ = world.split(dims.group(world.rank()), world.rank());
    own_replicas_ = world.split(dims.place(world.rank()), world.rank());
    group_ = own_group_.get();
    replicas_ = own_replicas_.get();
    reducing_replicas_ = own_replicas_->duplicate_for_overlap();
  }
  reducing_world_ = world.duplicate_for_overlap();
}

Communicator& RankMesh::sharers(const ShardPlan& plan, int unit) const {
  SLUICE_ASSERT(plan.sharers(unit) > 1, "unit {} is owned by one rank, expected several", unit);
  return plan.sharers(unit) == world_.size() ? world_ : *replicas_;
}

Communicator& RankMesh::reducers(const ShardPlan& plan, int unit) const {
  Communicator& ranks = sharers(plan, unit);
  const auto& reducing = &ranks == &world_ ? reducing_world_ : reducing_replicas_;
  return reducing ? *reducing : ranks;
}

Traffic RankMesh::traffic() const {
  Traffic sum = world_.traffic();
  for (const Communicator* part :
       {own_group_.get(), own_replicas_.get(), reducing_world_.get(), reducing_replicas_.get()}) {
    if (part == nullptr) continue;
    sum.sent_bytes += part->traffic().sent_bytes;
    sum.received_bytes += part->traffic().received_bytes;
  }
  return sum;
}

}  // namespace sluice
