#include "shard/stage_plan.hpp"

#include <algorithm>

namespace sluice {
namespace {

template <class Visit>
void for_each_stage(const StagePlan& plan, Visit visit) {
  visit(plan.embed);
  for (const Stage& layer : plan.layers) visit(layer);
  visit(plan.head);
}

/// What must be gathered to have a unit.
std::int64_t gathered_elements(const ShardPlan& plan, int unit, int rank) {
  return plan.sharers(unit) == 1 ? 0 : plan.held(unit, rank).count();
}

}  // namespace

std::vector<std::int64_t> StagePlan::slot_elements(const ShardPlan& plan, int rank) const {
  std::vector<std::int64_t> slots;
  for_each_stage(*this, [&](const Stage& stage) {
    slots.resize(std::max(slots.size(), stage.units.size()), 0);
    for (std::size_t i = 0; i < stage.units.size(); ++i)
      slots[i] = std::max(slots[i], gathered_elements(plan, stage.units[i], rank));
  });
  return slots;
}

std::int64_t StagePlan::largest_stage_elements(const ShardPlan& plan, int rank) const {
  std::int64_t largest = 0;
  for_each_stage(*this, [&](const Stage& stage) {
    std::int64_t elements = 0;
    for (const int unit : stage.units) elements += gathered_elements(plan, unit, rank);
    largest = std::max(largest, elements);
  });
  return largest;
}

StagePlan make_stage_plan(const UnitLayouts& layouts, bool tied_head) {
  StagePlan plan;
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
    const FlatLayout& layout = layouts.units[static_cast<std::size_t>(unit)];
    if (layout.kind() == UnitKind::kEmbedding) {
      plan.embed.units.push_back(unit);
      if (tied_head) plan.head.units.push_back(unit);
    } else if (layout.kind() == UnitKind::kFinal) {
      plan.head.units.push_back(unit);
    } else {
      plan.layers.resize(std::max(plan.layers.size(), static_cast<std::size_t>(layout.layer()) + 1));
      plan.layers[static_cast<std::size_t>(layout.layer())].units.push_back(unit);
    }
  }
  return plan;
}

}  // namespace sluice
