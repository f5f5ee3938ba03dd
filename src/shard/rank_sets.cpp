#include "shard/rank_sets.hpp"

#include "base/error.hpp"

namespace sluice {

RankSets::RankSets(Communicator& all, const ParallelDims& dims) : all_(all) {
  SLUICE_ASSERT(all.size() == dims.ranks(), "a shard plan for {} ranks is used by {} ranks", dims.ranks(),
                all.size());
  if (dims.replicas == 1) return;
  own_ = all.split(dims.set(all.rank()), all.rank());
  counterparts_ = all.split(dims.member(all.rank()), all.rank());
}

Traffic RankSets::traffic() const {
  Traffic sum = all_.traffic();
  if (own_) sum = sum + own_->traffic() + counterparts_->traffic();
  return sum;
}

}  // namespace sluice
