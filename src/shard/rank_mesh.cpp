#include "shard/rank_mesh.hpp"

#include "base/error.hpp"
#include "base/range.hpp"
#include "shard/rounded_floats.hpp"

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
  std::vector<std::int64_t> counts;
  for (int set = 0; set < dims_.replicas; ++set)
    counts.push_back(equal_part(std::ssize(sums), dims_.replicas, set).count());
  const Range own = equal_part(std::ssize(sums), dims_.replicas, sets_.number());
  float* const own_sums = sums.data() + own.begin;
  const DType sent = dims_.wire.gradients;
  counterparts->reduce_scatter_sum(sums.data(), own_sums, counts, nullptr, sent).wait();
  // The other parts are no longer needed: what is gathered takes their memory.
  const std::int64_t size = size_of(sent);
  auto* const gathered = reinterpret_cast<std::byte*>(sums.data());
  std::byte* const own_part = gathered + own.begin * size;
  if (sent == DType::kBFloat16) round_down_to({own_sums, static_cast<std::size_t>(own.count())}, own_part);
  counterparts->all_gather(own_part, gathered, times(counts, size)).wait();
  if (sent == DType::kBFloat16) widen_up_from(gathered, sums);
}

Traffic RankMesh::traffic() const {
  Traffic sum = sets_.traffic();
  for (const Communicator* part :
       {own_group_.get(), own_replicas_.get(), reducing_set_.get(), reducing_replicas_.get()})
    if (part != nullptr) sum = sum + part->traffic();
  return sum;
}

}  // namespace sluice
