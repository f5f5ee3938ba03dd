#include "shard/shard_plan.hpp"

#include "base/error.hpp"
#include "base/round.hpp"

#include <algorithm>
#include <span>

namespace sluice {

ShardPlan::ShardPlan(const UnitLayouts& layouts, ParallelDims dims, ShardAlignment alignment,
                     FrozenUnits frozen)
    : layouts_(layouts), dims_(dims), alignment_(alignment), frozen_(frozen) {
  SLUICE_ASSERT(dims.world >= 1 && dims.expert_parallel >= 1, "{} ranks cannot be divided into groups of {}",
                dims.world, dims.expert_parallel);
  if (dims.world % dims.expert_parallel != 0)
    fail(
        {ExitCode::kBadConfig, "job.ranks"},
        "parallel.expert_parallel: found {}, expected 0 or a divisor of {}, the number of ranks{}: groups of "
        "ranks are equally large",
        dims.expert_parallel, dims.world, dims.replicas > 1 ? " with each copy of the model" : "");
  held_elements_.assign(static_cast<std::size_t>(dims.world), 0);
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) cut(unit);
  offsets_.resize(layouts.units.size() * static_cast<std::size_t>(dims.world));
  place([](const FlatLayout& unit) { return unit.is_trained(); });
  trained_elements_ = held_elements_;
  place([](const FlatLayout& unit) { return !unit.is_trained() && !unit.is_stored(); });
  arena_elements_ = held_elements_;
  place([](const FlatLayout& unit) { return unit.is_stored(); });
}

/// Places each unit that has no place yet behind those that have one.
template <class IsPlaced>
void ShardPlan::place(IsPlaced is_placed) {
  for (int unit = 0; unit < static_cast<int>(layouts_.units.size()); ++unit) {
    if (!is_placed(layouts_.units[static_cast<std::size_t>(unit)])) continue;
    for (int rank = 0; rank < dims_.world; ++rank) {
      std::int64_t& arena = held_elements_[static_cast<std::size_t>(rank)];
      offsets_[static_cast<std::size_t>(unit * dims_.world + rank)] = arena;
      arena += round_up(owned(unit, rank).count(), alignment());
    }
  }
}

/// Cuts all units by rows between the same rows.
void ShardPlan::cut_rows(const FlatLayout& unit) {
  const Placement& table = unit.placements().front();
  const std::int64_t step = layouts_.rows_between_cuts(), rows = table.block_elements / table.row_elements;
  for (int shard = 0; shard < dims_.world; ++shard)
    cuts_.push_back(equal_part_begin(rows, dims_.world, shard) / step * step * table.row_elements);
  cuts_.push_back(unit.elements());
}

void ShardPlan::cut(int number) {
  const FlatLayout& unit = layouts_.units[static_cast<std::size_t>(number)];
  if (layouts_.is_by_rows(number)) return cut_rows(unit);
  const bool routed = unit.kind() == UnitKind::kExperts;
  const int parts = routed ? dims_.expert_parallel : 1;
  const int shards = dims_.world / parts;
  cuts_.push_back(0);
  for (int part = 0; part < parts; ++part) {
    const std::int64_t begin = cuts_.back();
    const std::int64_t end =
        routed ? unit.expert_begin(equal_part_begin(unit.experts(), parts, part + 1)) : unit.elements();
    for (int shard = 1; shard < shards; ++shard) {
      // Divides first: elements * rank passes 2^63 for no real model, but a plan must not depend on that.
      const std::int64_t ideal =
          begin + (end - begin) / shards * shard + (end - begin) % shards * shard / shards;
      cuts_.push_back(std::max(cuts_.back(), unit.cut_at_or_below(ideal)));
    }
    cuts_.push_back(end);
  }
}

bool ShardPlan::has_experts(int unit) const {
  return layouts_.units[static_cast<std::size_t>(unit)].kind() == UnitKind::kExperts;
}

bool ShardPlan::is_trained(int unit) const {
  if (unit == whole_unit()) return layouts_.trained_buffers.count() > 0;
  return layouts_.units[static_cast<std::size_t>(unit)].is_trained();
}

bool ShardPlan::is_kept(int unit) const {
  return frozen_ == FrozenUnits::kKept && !is_trained(unit) && !has_experts(unit) && is_gathered(unit);
}

bool ShardPlan::is_stored(int unit) const {
  return layouts_.units[static_cast<std::size_t>(unit)].is_stored();
}

int ShardPlan::shard_of(int unit, int rank) const {
  return has_experts(unit) ? dims_.place(rank) * dims_.groups() + dims_.group(rank) : rank;
}

int ShardPlan::rank_of(int unit, int shard) const {
  return has_experts(unit) ? shard % dims_.groups() * dims_.expert_parallel + shard / dims_.groups() : shard;
}

int ShardPlan::sharers(int unit) const {
  if (unit == whole_unit()) return 1;
  return has_experts(unit) ? dims_.groups() : dims_.world;
}

Range ShardPlan::owned(int unit, int rank) const {
  if (unit == whole_unit()) return layouts_.trained_buffers;
  const auto at = static_cast<std::size_t>(unit * (dims_.world + 1) + shard_of(unit, rank));
  return {cuts_[at], cuts_[at + 1]};
}

Range ShardPlan::owned_rows(int unit, int rank) const {
  const Placement& table = layouts_.units[static_cast<std::size_t>(unit)].placements().front();
  const Range own = common(owned(unit, rank), {0, table.block_elements});
  return {own.begin / table.row_elements, own.end / table.row_elements};
}

Range ShardPlan::gathered_range(int unit, int rank) const {
  if (layouts_.is_by_rows(unit)) return owned(unit, rank);
  const auto first = cuts_.begin() + std::ptrdiff_t{unit} * (dims_.world + 1);
  const int begin = shard_of(unit, rank) / sharers(unit) * sharers(unit);
  return {first[begin], first[begin + sharers(unit)]};
}

Range ShardPlan::held_blocks(int tensor, int rank) const {
  const int unit = layouts_.unit_of(tensor);
  const Placement& placement = layouts_.placement_of(tensor);
  if (!has_experts(unit)) return {0, placement.blocks};
  const Range held = gathered_range(unit, rank);
  return {held.begin / placement.block_stride, held.end / placement.block_stride};
}

std::int64_t ShardPlan::arena_offset(int unit, int rank) const {
  return offsets_[static_cast<std::size_t>(unit * dims_.world + rank)];
}

ShardPlan::UnitElement ShardPlan::unit_element(int rank, std::int64_t arena) const {
  for (int unit = 0; unit < static_cast<int>(layouts_.units.size()); ++unit) {
    const Range shard = owned(unit, rank);
    const std::int64_t inside = arena - arena_offset(unit, rank);
    if (inside >= 0 && inside < shard.count()) return {unit, shard.begin + inside};
  }
  SLUICE_ASSERT(false, "element {} of rank {}'s arena belongs to no unit", arena, rank);
  return {};
}

std::int64_t ShardPlan::held_elements(int rank) const {
  return held_elements_[static_cast<std::size_t>(rank)];
}

std::int64_t ShardPlan::arena_elements(int rank) const {
  return arena_elements_[static_cast<std::size_t>(rank)];
}

std::int64_t ShardPlan::trained_elements(int rank) const {
  return trained_elements_[static_cast<std::size_t>(rank)];
}

std::vector<std::int64_t> ShardPlan::counts(int unit, int rank) const {
  const int begin = shard_of(unit, rank) / sharers(unit) * sharers(unit);
  std::vector<std::int64_t> counts;
  for (int shard = begin; shard < begin + sharers(unit); ++shard)
    counts.push_back(owned(unit, rank_of(unit, shard)).count());
  return counts;
}

int ShardPlan::owner(int unit, std::int64_t element) const {
  const auto first = cuts_.begin() + std::ptrdiff_t{unit} * (dims_.world + 1);
  const auto above = std::upper_bound(first, first + dims_.world + 1, element);
  SLUICE_ASSERT(above != first && above != first + dims_.world + 1, "element {} is outside unit {}", element,
                unit);
  return rank_of(unit, static_cast<int>(above - first) - 1);
}

Digest ShardPlan::digest() const {
  Digest sum = digest_of(std::as_bytes(std::span(cuts_)), 0);
  sum += digest_of(std::as_bytes(std::span(offsets_)), 1);
  return sum;
}

void ShardPlan::visit_runs(int tensor, Range elements, Range part,
                           const std::function<void(int rank, const OwnedRun&)>& visit) const {
  const int unit = layouts_.unit_of(tensor);
  FlatLayout::for_each_run(layouts_.placement_of(tensor), elements.begin, elements.count(),
                           [&](const Run& run) {
                             const std::int64_t end = std::min(run.unit_begin + run.count, part.end);
                             for (std::int64_t begin = std::max(run.unit_begin, part.begin), count = 0;
                                  begin < end; begin += count) {
                               const int rank = owner(unit, begin);
                               const Range range = owned(unit, rank);
                               count = std::min(end, range.end) - begin;
                               visit(rank, {run.tensor_begin + begin - run.unit_begin,
                                            arena_offset(unit, rank) + begin - range.begin, count});
                             }
                           });
}

void ShardPlan::owned_runs(int tensor, Range elements,
                           const std::function<void(int rank, const OwnedRun&)>& visit) const {
  const auto unit = static_cast<std::size_t>(layouts_.unit_of(tensor));
  visit_runs(tensor, elements, {0, layouts_.units[unit].elements()}, visit);
}

void ShardPlan::owned_runs(int tensor, Range elements, int rank,
                           const std::function<void(const OwnedRun&)>& visit) const {
  visit_runs(tensor, elements, owned(layouts_.unit_of(tensor), rank),
             [&](int, const OwnedRun& run) { visit(run); });
}

void ShardPlan::owned_runs(int tensor, int rank, const std::function<void(const OwnedRun&)>& visit) const {
  owned_runs(tensor, {0, layouts_.placement_of(tensor).elements()}, rank, visit);
}

}  // namespace sluice
