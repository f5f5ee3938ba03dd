#include "shard/shard_plan.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace sluice {
namespace {

std::int64_t aligned(std::int64_t elements) {
  return (elements + ShardPlan::kArenaAlignment - 1) / ShardPlan::kArenaAlignment *
         ShardPlan::kArenaAlignment;
}

}  // namespace

ShardPlan::ShardPlan(const UnitLayouts& layouts, ParallelDims dims) : layouts_(layouts), dims_(dims) {
  SLUICE_ASSERT(dims.world >= 1 && dims.expert_parallel == 1, "no plan for {} ranks with expert_parallel {}",
                dims.world, dims.expert_parallel);
  arena_elements_.assign(static_cast<std::size_t>(dims.world), 0);
  for (const FlatLayout& unit : layouts.units) {
    cuts_.push_back(0);
    for (int rank = 0; rank < dims.world; ++rank) {
      const bool last = rank + 1 == dims.world;
      // Division first: elements * rank can pass 2^63 for no real model, but a plan must not depend on that.
      const std::int64_t ideal =
          unit.elements() / dims.world * (rank + 1) + unit.elements() % dims.world * (rank + 1) / dims.world;
      cuts_.push_back(last ? unit.elements() : std::max(cuts_.back(), unit.cut_at_or_below(ideal)));
      std::int64_t& arena = arena_elements_[static_cast<std::size_t>(rank)];
      offsets_.push_back(arena);
      arena += aligned(cuts_.back() - cuts_[cuts_.size() - 2]);
    }
  }
}

Range ShardPlan::owned(int unit, int rank) const {
  const auto at = static_cast<std::size_t>(unit * (dims_.world + 1) + rank);
  return {cuts_[at], cuts_[at + 1]};
}

std::int64_t ShardPlan::arena_offset(int unit, int rank) const {
  return offsets_[static_cast<std::size_t>(unit * dims_.world + rank)];
}

std::int64_t ShardPlan::arena_elements(int rank) const {
  return arena_elements_[static_cast<std::size_t>(rank)];
}

std::vector<std::int64_t> ShardPlan::counts(int unit) const {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < dims_.world; ++rank) counts.push_back(owned(unit, rank).count());
  return counts;
}

int ShardPlan::owner(int unit, std::int64_t element) const {
  const auto first = cuts_.begin() + unit * (dims_.world + 1);
  const auto above = std::upper_bound(first, first + dims_.world + 1, element);
  SLUICE_ASSERT(above != first && above != first + dims_.world + 1, "element {} is outside unit {}", element,
                unit);
  return static_cast<int>(above - first) - 1;
}

void ShardPlan::for_each_owned_run(int unit, const Placement& placement, int rank,
                                   const std::function<void(const OwnedRun&)>& visit) const {
  for_each_owned_run(unit, placement, {0, placement.blocks * placement.block_elements}, rank, visit);
}

void ShardPlan::for_each_owned_run(int unit, const Placement& placement, Range elements, int rank,
                                   const std::function<void(const OwnedRun&)>& visit) const {
  const Range range = owned(unit, rank);
  const std::int64_t to_arena = arena_offset(unit, rank) - range.begin;
  FlatLayout::for_each_run(placement, elements.begin, elements.count(), [&](const Run& run) {
    const std::int64_t begin = std::max(run.unit_begin, range.begin);
    const std::int64_t end = std::min(run.unit_begin + run.count, range.end);
    if (begin < end) visit({run.tensor_begin + begin - run.unit_begin, begin + to_arena, end - begin});
  });
}

}  // namespace sluice
