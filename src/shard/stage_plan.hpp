// The order in which units are needed: embed, layer after layer, head; backward goes the other way. Pure.
#pragma once

#include "shard/shard_plan.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Units that must be whole at the same time: {embedding}, {a layer's dense part, its experts}, {final norm
/// and head}, or with a tied head {embedding, final norm}.
struct Stage {
  std::vector<int> units;
};

/// Elements that a rank holds of units that it does not own alone, which are gathered and, as far as they are
/// trained, reduced. Stored units are gathered as bytes and do not count.
struct GatheredElements {
  std::int64_t dense = 0, experts = 0;
  [[nodiscard]] std::int64_t all() const { return dense + experts; }
};
[[nodiscard]] GatheredElements gathered_elements(const Stage& stage, const ShardPlan& plan, int rank);
[[nodiscard]] GatheredElements reduced_elements(const Stage& stage, const ShardPlan& plan, int rank);

/// Whether training changes any of its units.
[[nodiscard]] bool is_trained(const Stage& stage, const ShardPlan& plan);

/// Bytes of gathered units that are there at once.
struct GatherBytes {
  std::int64_t dense = 0;    ///< bytes of the dense units of two consecutive stages
  std::int64_t experts = 0;  ///< bytes of the experts of one stage
};

struct StagePlan {
  Stage embed;
  std::vector<Stage> layers;
  Stage head;

  /// Stage that forward needs after a layer (-1: the embedding), and backward before it: null before the
  /// first.
  [[nodiscard]] const Stage& after(int layer) const;
  [[nodiscard]] const Stage* before(int layer) const;

  /// The lowest layer that training changes, below which no gradient is needed: -1 where it changes the
  /// embedding, the number of layers where it changes none.
  [[nodiscard]] int lowest_trained_layer(const ShardPlan& plan) const;

  /// The most that is gathered at once, of elements of `element_bytes` bytes. `stored_bytes`: of each stored
  /// unit what the rank holds, by units; empty if none is stored.
  [[nodiscard]] GatherBytes gather_bytes(const ShardPlan& plan, int rank, std::int64_t element_bytes,
                                         std::span<const std::int64_t> stored_bytes = {}) const;

  // GatheredElements of the plan.

  /// Whether gradients of experts are reduced: there is no room then for those of a second stage.
  [[nodiscard]] bool reduces_experts(const ShardPlan& plan, int rank) const;
  /// Elements of the buffer that gradients are received in: those of the dense units of two neighbours where
  /// no experts are reduced, else of all units of one stage.
  [[nodiscard]] std::int64_t gradient_elements(const ShardPlan& plan, int rank) const;
};

/// Whether the head shares the embedding's storage.
enum class TiedHead : bool { kNo, kYes };

[[nodiscard]] StagePlan make_stage_plan(const UnitLayouts& layouts, TiedHead tied);

}  // namespace sluice
