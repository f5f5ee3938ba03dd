#include "train/objective/preference_batch.hpp"

#include "base/error.hpp"

namespace sluice {

double preference_loss(const PreferSettings& settings, std::span<const double> sums) {
  double loss = sums[kPairLosses] / sums[kPairs];
  if (settings.learns_chosen_documents()) loss += sums[kDocumentLosses] / sums[kDocumentTokens];
  if (settings.sft_weight != 0) loss += settings.sft_weight * sums[kAnswerLosses] / sums[kAnswerTokens];
  return loss;
}

PreferenceBatch::PreferenceBatch(const PreferSettings& settings, const Batch& batch)
    : settings_(settings), batch_(batch) {
  for (const PreferencePair& pair : batch.pairs)
    reference_.push_back({{.sum = pair.chosen_reference}, {.sum = pair.rejected_reference}});
}

template <class Visit>
void PreferenceBatch::for_each_pair(Range sequences, Visit visit) const {
  for (std::size_t i = 0; i < batch_.pairs.size(); ++i) {
    const std::int64_t sequence = batch_.pairs[i].sequence;
    if (sequence >= sequences.begin && sequence < sequences.end) visit(i);
  }
}

bool PreferenceBatch::is_answer(std::int64_t sequence, std::int64_t target) const {
  const std::int64_t place = sequence * (batch_.length + 1) + target + 1;
  return batch_.marks[static_cast<std::size_t>(place)] == TokenMark::kInside;
}

AnswerLogProb PreferenceBatch::answer(Range sequences, std::int64_t sequence, Range targets,
                                      std::span<const double> losses) const {
  const auto of_sequence =
      losses.subspan(static_cast<std::size_t>((sequence - sequences.begin) * batch_.length));
  AnswerLogProb sum;
  for (std::int64_t target = targets.begin; target < targets.end; ++target) {
    if (!is_answer(sequence, target)) continue;
    sum.sum -= of_sequence[static_cast<std::size_t>(target)];
    ++sum.tokens;
  }
  return sum;
}

PairLogProbs PreferenceBatch::policy(Range sequences, const PreferencePair& pair,
                                     std::span<const double> losses) const {
  return {answer(sequences, pair.sequence, pair.chosen, losses),
          answer(sequences, pair.sequence, pair.rejected, losses)};
}

PreferenceSums PreferenceBatch::counts() const {
  PreferenceSums counts{};
  for (const PreferencePair& pair : batch_.pairs) {
    ++counts[kPairs];
    counts[kDocumentTokens] += static_cast<double>(pair.chosen.count());
    for (std::int64_t target = pair.chosen.begin; target < pair.chosen.end; ++target)
      counts[kAnswerTokens] += is_answer(pair.sequence, target) ? 1 : 0;
  }
  return counts;
}

void PreferenceBatch::set_reference(Range sequences, std::span<const double> losses) {
  for_each_pair(sequences,
                [&](std::size_t i) { reference_[i] = policy(sequences, batch_.pairs[i], losses); });
}

void PreferenceBatch::add(Range sequences, std::span<const double> losses, std::span<double> sums) const {
  SLUICE_ASSERT(std::ssize(losses) == sequences.count() * batch_.length, "found {} losses, expected {} x {}",
                losses.size(), sequences.count(), batch_.length);
  for_each_pair(sequences, [&](std::size_t i) {
    const PreferencePair& pair = batch_.pairs[i];
    const PairLogProbs log_probs = policy(sequences, pair, losses);
    const PairLoss loss = pair_loss(settings_, log_probs, reference_[i]);
    ++sums[kPairs];
    sums[kPairLosses] += loss.loss;
    sums[kChosenRewards] += loss.reward_chosen;
    sums[kRejectedRewards] += loss.reward_rejected;
    sums[kRightPairs] += loss.reward_chosen > loss.reward_rejected ? 1 : 0;
    sums[kPairsWithMargin] += loss.reward_chosen != loss.reward_rejected ? 1 : 0;
    sums[kChosenLogProbs] += loss.logp_chosen;
    sums[kRejectedLogProbs] += loss.logp_rejected;
    sums[kAnswerLosses] -= log_probs.chosen.sum;
    sums[kAnswerTokens] += log_probs.chosen.tokens;
    sums[kDocumentTokens] += static_cast<double>(pair.chosen.count());
    const std::int64_t begin = (pair.sequence - sequences.begin) * batch_.length;
    for (std::int64_t target = pair.chosen.begin; target < pair.chosen.end; ++target)
      sums[kDocumentLosses] += losses[static_cast<std::size_t>(begin + target)];
  });
}

std::vector<double> PreferenceBatch::coefficients(Range sequences, std::span<const double> losses,
                                                  const PreferenceSums& counts) const {
  std::vector<double> coefficients(losses.size(), 0.0);
  for_each_pair(sequences, [&](std::size_t i) {
    const PreferencePair& pair = batch_.pairs[i];
    const PairLoss loss = pair_loss(settings_, policy(sequences, pair, losses), reference_[i]);
    const std::int64_t begin = (pair.sequence - sequences.begin) * batch_.length;
    // A token's loss is its negative log-probability.
    const double of_chosen = -loss.d_chosen / counts[kPairs] + settings_.sft_weight / counts[kAnswerTokens];
    const double of_rejected = -loss.d_rejected / counts[kPairs];
    const double of_document = settings_.learns_chosen_documents() ? 1 / counts[kDocumentTokens] : 0;
    for (std::int64_t target = pair.chosen.begin; target < pair.chosen.end; ++target)
      coefficients[static_cast<std::size_t>(begin + target)] =
          of_document + (is_answer(pair.sequence, target) ? of_chosen : 0);
    for (std::int64_t target = pair.rejected.begin; target < pair.rejected.end; ++target)
      if (is_answer(pair.sequence, target))
        coefficients[static_cast<std::size_t>(begin + target)] = of_rejected;
  });
  return coefficients;
}

}  // namespace sluice
