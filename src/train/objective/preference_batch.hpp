// The pairs of a batch: from the losses of its tokens to sums of the objective and one coefficient a token.
// Pure; all numbers are float64.
#pragma once

#include "data/batch.hpp"
#include "train/objective/preference_loss.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Sums over pairs, of which the loss and the numbers beside it are made: of one rank, or of all.
enum PreferenceSum : std::uint8_t {
  kPairs,              ///< number of pairs
  kPairLosses,         ///< losses of pairs, as pair_loss() has them
  kChosenRewards,      ///< rewards of chosen answers
  kRejectedRewards,    ///< rewards of rejected answers
  kRightPairs,         ///< pairs whose chosen answer has the larger reward
  kPairsWithMargin,    ///< pairs whose answers have different rewards
  kChosenLogProbs,     ///< PairLoss::logp_chosen
  kRejectedLogProbs,   ///< PairLoss::logp_rejected
  kAnswerLosses,       ///< losses of the tokens of chosen answers, nats
  kAnswerTokens,       ///< number of these tokens
  kDocumentLosses,     ///< losses of all targets of chosen answers' documents, the prompt's included, nats
  kDocumentTokens,     ///< number of these targets
  kPreferenceSumCount  ///< number of sums
};
using PreferenceSums = std::array<double, kPreferenceSumCount>;

/// The loss that a training minimises, from sums over the whole global batch: the mean loss of a pair, with
/// ORPO's cross-entropy of chosen documents, and settings.sft_weight times that of chosen answers. NaN without
/// pairs.
[[nodiscard]] double preference_loss(const PreferSettings& settings, std::span<const double> sums);

/// The pairs of one rank's share of a batch.
class PreferenceBatch {
 public:
  /// `batch` must outlive this object.
  PreferenceBatch(const PreferSettings& settings, const Batch& batch);

  [[nodiscard]] std::int64_t length() const { return batch_.length; }

  /// Counts of this share: kPairs, kAnswerTokens and kDocumentTokens, all other sums 0.
  [[nodiscard]] PreferenceSums counts() const;

  /// Takes the log-probabilities under the reference of all pairs of `sequences`, from the `losses` of their
  /// targets [sequences x length].
  void set_reference(Range sequences, std::span<const double> losses);

  /// Adds the pairs of `sequences` to `sums`, from the `losses` of their targets [sequences x length].
  void add(Range sequences, std::span<const double> losses, std::span<double> sums) const;

  /// Derivatives of preference_loss() by each of the `losses` of `sequences`. `counts`: those of the whole
  /// global batch.
  [[nodiscard]] std::vector<double> coefficients(Range sequences, std::span<const double> losses,
                                                 const PreferenceSums& counts) const;

 private:
  [[nodiscard]] bool is_answer(std::int64_t sequence, std::int64_t target) const;
  [[nodiscard]] AnswerLogProb answer(Range sequences, std::int64_t sequence, Range targets,
                                     std::span<const double> losses) const;
  [[nodiscard]] PairLogProbs policy(Range sequences, const PreferencePair& pair,
                                    std::span<const double> losses) const;
  /// Calls `visit` with the number of each pair of `sequences`.
  template <class Visit>
  void for_each_pair(Range sequences, Visit visit) const;

  PreferSettings settings_;
  const Batch& batch_;
  /// Log-probabilities of each pair under the reference: those that the batch has, until set_reference().
  std::vector<PairLogProbs> reference_;
};

}  // namespace sluice
