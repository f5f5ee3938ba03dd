// Stages: the order in which units are needed, from the embedding over the layers to the head; backward in
// the opposite order. Pure.
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

/// Elements that a rank holds of units that other ranks share, which are gathered and, if trained, reduced.
/// Stored units are gathered as bytes, and kept ones once: they do not count.
struct GatheredElements {
  std::int64_t dense = 0, experts = 0;
  [[nodiscard]] std::int64_t all() const { return dense + experts; }
};
[[nodiscard]] GatheredElements gathered_elements(const Stage& stage, const ShardPlan& plan, int rank);
[[nodiscard]] GatheredElements reduced_elements(const Stage& stage, const ShardPlan& plan, int rank);

/// Whether training changes any unit of the stage.
[[nodiscard]] bool is_trained(const Stage& stage, const ShardPlan& plan);

/// Bytes of gathered units that are in memory at once.
struct GatherBytes {
  std::int64_t kept = 0;     ///< bytes of all units that stay (ShardPlan::is_kept())
  std::int64_t dense = 0;    ///< bytes of the dense units of two consecutive stages
  std::int64_t experts = 0;  ///< bytes of the experts of one stage
};

struct StagePlan {
  Stage embed;
  std::vector<Stage> layers;
  Stage head;

  /// Stage that the forward pass enters after a layer (-1: after the embedding); for the backward pass the
  /// stage before it, null before the first.
  [[nodiscard]] const Stage& after(int layer) const;
  [[nodiscard]] const Stage* before(int layer) const;

  /// The lowest layer that training changes, below which no gradient is needed; -1: the embedding is trained;
  /// the number of layers: no layer is.
  [[nodiscard]] int lowest_trained_layer(const ShardPlan& plan) const;

  /// The most bytes that are gathered at once, for elements of `element_bytes` bytes. `stored_bytes`: the
  /// rank's bytes of each stored unit, by unit; empty if no unit is stored.
  [[nodiscard]] GatherBytes gather_bytes(const ShardPlan& plan, int rank, std::int64_t element_bytes,
                                         std::span<const std::int64_t> stored_bytes = {}) const;

  // The functions below count in GatheredElements.

  /// Whether gradients of experts are reduced; then the gradient buffer has no room for a second stage.
  [[nodiscard]] bool reduces_experts(const ShardPlan& plan, int rank) const;
  /// Elements of the buffer that backward writes gradients to: the dense units of two neighbouring stages, or
  /// all units of one stage if experts are reduced.
  [[nodiscard]] std::int64_t gradient_elements(const ShardPlan& plan, int rank) const;
};

/// Whether the head shares the embedding's storage.
enum class TiedHead : bool { kNo, kYes };

[[nodiscard]] StagePlan make_stage_plan(const UnitLayouts& layouts, TiedHead tied);

}  // namespace sluice
