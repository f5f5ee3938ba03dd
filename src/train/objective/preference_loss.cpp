#include "train/objective/preference_loss.hpp"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

/// A value with its derivative.
struct Value {
  double value, slope;
};

/// Smoothed sigmoid loss of x.
Value sigmoid_loss(double smoothing, double x) {
  return {-(1 - smoothing) * log_sigmoid(x) - smoothing * log_sigmoid(-x),
          -(1 - smoothing) * sigmoid(-x) + smoothing * sigmoid(x)};
}

/// Loss of a difference of scores.
Value loss_of_difference(const PreferSettings& settings, double difference) {
  const double beta = settings.beta, x = beta * difference;
  switch (settings.loss) {
    case PreferenceLoss::kHinge:
      return {std::max(0.0, 1 - x), x < 1 ? -beta : 0};
    case PreferenceLoss::kIpo:
      return {std::pow(difference - 1 / (2 * beta), 2), 2 * difference - 1 / beta};
    case PreferenceLoss::kOrpo:
      return {-beta * log_sigmoid(difference), -beta * sigmoid(-difference)};
    case PreferenceLoss::kSigmoid:
    case PreferenceLoss::kSigmoidNorm:
      break;
  }
  const Value loss = sigmoid_loss(settings.label_smoothing, x);
  return {loss.value, beta * loss.slope};
}

/// Log odds of a probability e^logp. Float32 logits leave a log-probability of 0 where the next one is less
/// than their resolution away, which stands for all of these.
Value log_odds(double logp) {
  constexpr double kResolution = 0x1p-24;
  const double rest = -std::expm1(std::min(logp, -kResolution));  // 1 - e^logp
  return {logp - std::log(rest), 1 / rest};
}

/// What a loss compares of an answer: its score relative to the reference, with the derivative by the sum of
/// its log-probabilities.
Value score(PreferenceLoss loss, const AnswerLogProb& policy, const AnswerLogProb& reference) {
  if (loss == PreferenceLoss::kOrpo) {
    const Value odds = log_odds(policy.mean());
    return {odds.value, odds.slope / policy.tokens};
  }
  const double ratio = policy.sum - reference.sum;
  const bool is_mean = loss == PreferenceLoss::kSigmoidNorm || loss == PreferenceLoss::kIpo;
  return is_mean ? Value{ratio / policy.tokens, 1 / policy.tokens} : Value{ratio, 1};
}

}  // namespace

PairLoss pair_loss(const PreferSettings& settings, const PairLogProbs& policy,
                   const PairLogProbs& reference) {
  const Value chosen = score(settings.loss, policy.chosen, reference.chosen);
  const Value rejected = score(settings.loss, policy.rejected, reference.rejected);
  const Value loss = loss_of_difference(settings, chosen.value - rejected.value);
  PairLoss out{
      .loss = loss.value, .d_chosen = loss.slope * chosen.slope, .d_rejected = -loss.slope * rejected.slope};
  const bool is_orpo = settings.loss == PreferenceLoss::kOrpo;
  out.logp_chosen = is_orpo ? policy.chosen.mean() : policy.chosen.sum;
  out.logp_rejected = is_orpo ? policy.rejected.mean() : policy.rejected.sum;
  out.reward_chosen = settings.beta * (out.logp_chosen - (is_orpo ? 0 : reference.chosen.sum));
  out.reward_rejected = settings.beta * (out.logp_rejected - (is_orpo ? 0 : reference.rejected.sum));
  return out;
}

}  // namespace sluice
