// Notices a router that sends nearly every token of a layer to the same few experts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

/// A layer whose tokens have gone to the same number of experts as each of them chooses.
struct CollapsedLayer {
  std::int64_t layer = 0;  ///< index of the layer among the MoE layers, from 0
  /// Share of the layer's choices in the last step that its busiest experts took, as many experts as a token
  /// chooses.
  double share = 0;
  std::int64_t unused = 0;  ///< experts of the layer that no token of the last step chose
};

class CollapseWatch {
 public:
  /// Steps in a row in which a layer must be collapsed: a router that starts from random weights may be for a
  /// while.
  static constexpr std::int64_t kSteps = 20;
  /// A layer is collapsed in a step in which the `chosen` busiest of its experts take this share of all
  /// choices.
  static constexpr double kShare = 0.75;

  /// Each token chooses `chosen` of `experts`. With more than half chosen no layer counts as collapsed.
  CollapseWatch(std::int64_t experts, std::int64_t chosen) : experts_(experts), chosen_(chosen) {}

  /// Tokens of one step [MoE layers, experts]. The most collapsed layer when one has been so for kSteps, and
  /// never again.
  [[nodiscard]] std::optional<CollapsedLayer> add(std::span<const std::int64_t> tokens);

 private:
  [[nodiscard]] double share_of(std::span<const std::int64_t> layer) const;

  std::int64_t experts_, chosen_;
  std::vector<std::int64_t> steps_;  ///< steps in a row in which each MoE layer was collapsed
  bool has_told_ = false;
};

}  // namespace sluice
