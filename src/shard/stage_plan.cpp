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

template <class Counts>
GatheredElements shared_elements(const Stage& stage, const ShardPlan& plan, int rank, Counts counts) {
  GatheredElements elements;
  for (const int unit : stage.units)
    if (plan.is_gathered(unit) && counts(unit))
      (plan.has_experts(unit) ? elements.experts : elements.dense) += plan.gathered_range(unit, rank).count();
  return elements;
}

/// Largest sum of `elements` of two consecutive stages.
template <class Elements>
std::int64_t neighbouring(const StagePlan& plan, Elements elements) {
  std::int64_t most = 0, before = 0;
  for_each_stage(plan, [&](const Stage& stage) {
    const std::int64_t own = elements(stage);
    most = std::max(most, before + own);
    before = own;
  });
  return most;
}

}  // namespace

GatheredElements gathered_elements(const Stage& stage, const ShardPlan& plan, int rank) {
  return shared_elements(stage, plan, rank,
                         [&](int unit) { return !plan.is_stored(unit) && !plan.is_kept(unit); });
}

GatheredElements reduced_elements(const Stage& stage, const ShardPlan& plan, int rank) {
  return shared_elements(stage, plan, rank, [&](int unit) { return plan.is_trained(unit); });
}

bool is_trained(const Stage& stage, const ShardPlan& plan) {
  return std::ranges::any_of(stage.units, [&](int unit) { return plan.is_trained(unit); });
}

int StagePlan::lowest_trained_layer(const ShardPlan& plan) const {
  if (is_trained(embed, plan)) return -1;
  const auto found =
      std::ranges::find_if(layers, [&](const Stage& layer) { return is_trained(layer, plan); });
  int lowest = static_cast<int>(found - layers.begin());
  const UnitLayouts& layouts = plan.layouts();
  for (const BufferPlace& place : layouts.buffers)
    if (place.offset >= layouts.trained_buffers.begin) lowest = std::min(lowest, place.layer);
  return lowest;
}

const Stage& StagePlan::after(int layer) const {
  const auto next = static_cast<std::size_t>(layer + 1);
  return next < layers.size() ? layers[next] : head;
}

const Stage* StagePlan::before(int layer) const {
  return layer == 0 ? nullptr : &layers[static_cast<std::size_t>(layer - 1)];
}

GatherBytes StagePlan::gather_bytes(const ShardPlan& plan, int rank, std::int64_t element_bytes,
                                    std::span<const std::int64_t> stored_bytes) const {
  const auto bytes_of = [&](const Stage& stage) {
    const GatheredElements elements = gathered_elements(stage, plan, rank);
    GatherBytes bytes{.dense = elements.dense * element_bytes, .experts = elements.experts * element_bytes};
    for (const int unit : stage.units)
      if (plan.is_stored(unit) && plan.is_gathered(unit) && !plan.is_kept(unit))
        (plan.has_experts(unit) ? bytes.experts : bytes.dense) +=
            stored_bytes[static_cast<std::size_t>(unit)];
    return bytes;
  };
  GatherBytes most{.dense = neighbouring(*this, [&](const Stage& stage) { return bytes_of(stage).dense; })};
  for (int unit = 0; unit < static_cast<int>(plan.layouts().units.size()); ++unit)
    if (plan.is_kept(unit))
      most.kept += plan.is_stored(unit) ? stored_bytes[static_cast<std::size_t>(unit)]
                                        : plan.gathered_range(unit, rank).count() * element_bytes;
  for_each_stage(*this,
                 [&](const Stage& stage) { most.experts = std::max(most.experts, bytes_of(stage).experts); });
  return most;
}

std::int64_t StagePlan::gradient_elements(const ShardPlan& plan, int rank) const {
  if (!reduces_experts(plan, rank))
    return neighbouring(*this, [&](const Stage& stage) { return reduced_elements(stage, plan, rank).dense; });
  std::int64_t largest = 0;
  for_each_stage(*this, [&](const Stage& stage) {
    largest = std::max(largest, reduced_elements(stage, plan, rank).all());
  });
  return largest;
}

bool StagePlan::reduces_experts(const ShardPlan& plan, int rank) const {
  return std::ranges::any_of(
      layers, [&](const Stage& layer) { return reduced_elements(layer, plan, rank).experts > 0; });
}

StagePlan make_stage_plan(const UnitLayouts& layouts, TiedHead tied) {
  StagePlan plan;
  for (int unit = 0; unit < static_cast<int>(layouts.units.size()); ++unit) {
    const FlatLayout& layout = layouts.units[static_cast<std::size_t>(unit)];
    if (layout.kind() == UnitKind::kEmbedding) {
      plan.embed.units.push_back(unit);
      if (tied == TiedHead::kYes) plan.head.units.push_back(unit);
    } else if (layout.kind() == UnitKind::kFinal || layout.kind() == UnitKind::kHead) {
      plan.head.units.push_back(unit);
    } else {
      plan.layers.resize(std::max(plan.layers.size(), static_cast<std::size_t>(layout.layer()) + 1));
      plan.layers[static_cast<std::size_t>(layout.layer())].units.push_back(unit);
    }
  }
  return plan;
}

}  // namespace sluice
