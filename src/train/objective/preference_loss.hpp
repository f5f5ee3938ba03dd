// Losses of preferences between two answers to a prompt, as functions of the answers' log-probabilities, by
// the formulas of TRL's DPOTrainer and ORPOTrainer. Pure; all numbers are float64.
#pragma once

#include "config/job_config.hpp"

namespace sluice {

/// Log-probability of an answer behind its prompt.
struct AnswerLogProb {
  double sum = 0;     ///< sum over the answer's tokens, in nats
  double tokens = 0;  ///< number of these tokens

  [[nodiscard]] double mean() const { return sum / tokens; }
};

/// Log-probabilities of both answers of a pair.
struct PairLogProbs {
  AnswerLogProb chosen, rejected;
};

/// Loss of one pair, and what is told beside it.
struct PairLoss {
  double loss = 0;
  double d_chosen = 0, d_rejected = 0;            ///< derivatives by the sums of log-probabilities
  double reward_chosen = 0, reward_rejected = 0;  ///< beta * log-probability relative to the reference
  /// Log-probabilities of which the rewards are made: sums, or means over tokens with kOrpo.
  double logp_chosen = 0, logp_rejected = 0;
};

/// The loss of a pair under the policy, of which d is the log-probability of the chosen answer less that of
/// the rejected one, less the same difference under the reference:
///
///     sigmoid       -(1 - e) log sigmoid(beta d) - e log sigmoid(-beta d)   e = label_smoothing
///     sigmoid_norm  the same, of means over an answer's tokens in place of sums
///     hinge         max(0, 1 - beta d)
///     ipo           (d - 1 / (2 beta))^2, of means
///     orpo          -beta log sigmoid(difference of log odds), of means; `reference` is ignored
///
/// The cross-entropy that ORPO adds is not part of it. Each answer has at least one token.
[[nodiscard]] PairLoss pair_loss(const PreferSettings& settings, const PairLogProbs& policy,
                                 const PairLogProbs& reference);

}  // namespace sluice
