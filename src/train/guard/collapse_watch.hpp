// Detects a collapsed router, which sends nearly every token of a layer to the same few experts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// A layer whose tokens nearly all went to as many experts as each token chooses.
struct CollapsedLayer {
  std::int64_t layer = 0;  ///< index of the layer among the MoE layers, from 0
  /// Share of the layer's choices in the last step that went to its busiest experts, as many experts as a
  /// token chooses.
  double share = 0;
  std::int64_t unused = 0;  ///< experts of the layer that no token of the last step chose
};

class CollapseWatch {
 public:
  /// Steps in a row for which a layer must be collapsed before it is reported: routers that start from random
  /// weights may be collapsed for a while.
  static constexpr std::int64_t kSteps = 20;
  /// Share of all choices in a step above which the `chosen` busiest experts make their layer collapsed.
  static constexpr double kShare = 0.75;

  /// Watches layers of `experts` experts, of which each token chooses `chosen`. If that is more than half, no
  /// layer counts as collapsed.
  CollapseWatch(std::int64_t experts, std::int64_t chosen) : experts_(experts), chosen_(chosen) {}

  /// Adds one step's tokens per expert, [MoE layers, experts]. Returns the most collapsed layer when a layer
  /// has been collapsed for kSteps steps, once only.
  [[nodiscard]] std::optional<CollapsedLayer> add(std::span<const std::int64_t> tokens);

 private:
  [[nodiscard]] double share_of(std::span<const std::int64_t> layer) const;

  std::int64_t experts_, chosen_;
  std::vector<std::int64_t> steps_;  ///< steps in a row in which each MoE layer was collapsed
  bool has_told_ = false;
};

}  // namespace sluice
