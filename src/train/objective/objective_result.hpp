// What an objective makes of a step. Needs no LibTorch.
#pragma once

#include <optional>

namespace sluice {

/// Preferences of a model between the pairs of a step, means over the pairs.
struct PreferenceMetrics {
  double chosen_reward = 0, rejected_reward = 0;  ///< PairLoss::reward_chosen and reward_rejected
  double accuracy = 0;  ///< share of pairs whose chosen answer has the larger reward
  double chosen_log_prob = 0, rejected_log_prob = 0;  ///< PairLoss::logp_chosen and logp_rejected, nats
  bool has_margin = false;                            ///< whether the rewards of any pair differ

  [[nodiscard]] double margin() const { return chosen_reward - rejected_reward; }
};

/// The parts of the loss of a step that learns from a teacher, in nats.
struct DistilMetrics {
  double own_loss = 0;  ///< mean cross-entropy of the step's targets
  double teacher_loss =
      0;  ///< mean cross-entropy against the teacher's distributions; NaN in a step without any
  /// mean entropy of these distributions, what teacher_loss is when nothing is left to learn; NaN if they were drawn
  double teacher_entropy = 0;
};

/// Loss of a step, and what its objective tells beside it.
struct ObjectiveResult {
  double loss = 0;  ///< mean cross-entropy of the step's targets in nats, or the loss of its pairs
  std::optional<PreferenceMetrics> preferences{};  ///< preferences, if the job learns these
  std::optional<DistilMetrics> distil{};           ///< parts of the loss, if the job learns from a teacher
};

}  // namespace sluice
