#include "shard/rank_mesh.hpp"

#include "base/error.hpp"
#include "base/range.hpp"

#include <cstddef>
#include <vector>

namespace sluice {

RankMesh::RankMesh(Communicator& all, const ParallelDims& dims)
    : dims_(dims), sets_(all, dims), set_(sets_.own()) {
  const int rank = set_.rank();
  if (dims.expert_parallel == 1) {
    replicas_ = &set_;
  } else if (dims.groups() == 1) {
    own_group_ = set_.duplicate_for_overlap();
    group_ = own_group_ ? own_group_.get() : &set_;
  } else {
    own_group_ = set_.split(dims.group(rank), rank);
    own_replicas_ = set_.split(dims.place(rank), rank);
    group_ = own_group_.get();
    replicas_ = own_replicas_.get();
    reducing_replicas_ = own_replicas_->duplicate_for_overlap();
  }
  reducing_set_ = set_.duplicate_for_overlap();
}

Communicator& RankMesh::sharers(const ShardPlan& plan, int unit) const {
  SLUICE_ASSERT(plan.sharers(unit) > 1, "unit {} is owned by one rank, expected several", unit);
  return plan.sharers(unit) == set_.size() ? set_ : *replicas_;
}

Communicator& RankMesh::reducers(const ShardPlan& plan, int unit) const {
  Communicator& ranks = sharers(plan, unit);
  const auto& reducing = &ranks == &set_ ? reducing_set_ : reducing_replicas_;
  return reducing ? *reducing : ranks;
}

void RankMesh::sum_over_sets(std::span<float> sums) const {
  Communicator* const counterparts = sets_.counterparts();
  if (counterparts == nullptr || sums.empty()) return;
  std::vector<std::int64_t> counts, bytes;
  for (int set = 0; set < dims_.replicas; ++set) {
    counts.push_back(equal_part(std::ssize(sums), dims_.replicas, set).count());
    bytes.push_back(counts.back() * std::int64_t{sizeof(float)});
  }
  float* const own = sums.data() + equal_part_begin(std::ssize(sums), dims_.replicas, sets_.number());
  counterparts->reduce_scatter_sum(sums.data(), own, counts).wait();
  counterparts->all_gather(own, sums.data(), bytes).wait();
}

Traffic RankMesh::traffic() const {
  Traffic sum = sets_.traffic();
  for (const Communicator* part :
       {own_group_.get(), own_replicas_.get(), reducing_set_.get(), reducing_replicas_.get()})
    if (part != nullptr) sum = sum + part->traffic();
  return sum;
}

}  // namespace sluice
