// The order in which units are needed: embed, layer after layer, head; backward goes the other way. Pure.
#pragma once

#include "shard/shard_plan.hpp"

#include <cstdint>
#include <vector>

namespace sluice {

/// Units that must be whole at the same time: {embedding}, {a layer's dense part, its experts}, {final norm
/// and head}, or with a tied head {embedding, final norm}.
struct Stage {
  std::vector<int> units;
};

struct StagePlan {
  Stage embed;
  std::vector<Stage> layers;
  Stage head;

  /// Elements that a rank holds of the i-th unit of any stage, units that it owns alone not counted: one
  /// gather slot for each i serves all stages.
  [[nodiscard]] std::vector<std::int64_t> slot_elements(const ShardPlan& plan, int rank) const;
  /// The same of the stage with the most: what one gradient buffer must hold.
  [[nodiscard]] std::int64_t largest_stage_elements(const ShardPlan& plan, int rank) const;
};

/// `tied_head`: the head shares the embedding's storage.
[[nodiscard]] StagePlan make_stage_plan(const UnitLayouts& layouts, bool tied_head);

}  // namespace sluice
