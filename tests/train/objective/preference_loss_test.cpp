#include "train/objective/preference_loss.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace sluice {
namespace {

constexpr double kBeta = 0.3;

PreferSettings settings(PreferenceLoss loss, double label_smoothing = 0) {
  return {.loss = loss, .beta = kBeta, .label_smoothing = label_smoothing};
}

at::Tensor leaf(double value) { return at::scalar_tensor(value, at::kDouble).requires_grad_(); }

/// The formulas of TRL over sums of log-probabilities, in torch.
at::Tensor formula(const PreferSettings& s, const at::Tensor& chosen, const at::Tensor& rejected,
                   const PairLogProbs& policy, const PairLogProbs& reference) {
  const at::Tensor ratio_w = chosen - reference.chosen.sum, ratio_l = rejected - reference.rejected.sum;
  const at::Tensor mean_d = ratio_w / policy.chosen.tokens - ratio_l / policy.rejected.tokens;
  const at::Tensor d = ratio_w - ratio_l;
  const auto smoothed = [&](const at::Tensor& x) {
    return -(1 - s.label_smoothing) * at::log_sigmoid(x) - s.label_smoothing * at::log_sigmoid(-x);
  };
  switch (s.loss) {
    case PreferenceLoss::kSigmoid:
      return smoothed(s.beta * d);
    case PreferenceLoss::kSigmoidNorm:
      return smoothed(s.beta * mean_d);
    case PreferenceLoss::kHinge:
      return at::relu(1 - s.beta * d);
    case PreferenceLoss::kIpo:
      return (mean_d - 1 / (2 * s.beta)).square();
    case PreferenceLoss::kOrpo:
      break;
  }
  const at::Tensor w = chosen / policy.chosen.tokens, l = rejected / policy.rejected.tokens;
  const at::Tensor odds = w - l - ((-at::expm1(w)).log() - (-at::expm1(l)).log());
  return -s.beta * at::log_sigmoid(odds);
}

void expect_formula(const PreferSettings& s, const PairLogProbs& policy, const PairLogProbs& reference) {
  const at::Tensor chosen = leaf(policy.chosen.sum), rejected = leaf(policy.rejected.sum);
  const at::Tensor expected = formula(s, chosen, rejected, policy, reference);
  expected.backward();
  const PairLoss found = pair_loss(s, policy, reference);
  const auto expect_near = [](double value, const at::Tensor& wanted) {
    EXPECT_NEAR(value, wanted.item<double>(), 1e-12 * (1 + std::abs(wanted.item<double>())));
  };
  expect_near(found.loss, expected);
  expect_near(found.d_chosen, chosen.grad());
  expect_near(found.d_rejected, rejected.grad());
}

TEST(PreferenceLoss, and_its_derivatives_are_those_of_the_formulas) {
  const PairLogProbs reference{{-13.5, 7}, {-10.25, 4}};
  for (const PreferenceLoss loss : {PreferenceLoss::kSigmoid, PreferenceLoss::kSigmoidNorm,
                                    PreferenceLoss::kIpo, PreferenceLoss::kHinge, PreferenceLoss::kOrpo})
    for (const double smoothing : {0.0, 0.2})
      for (const double chosen : {-0.01, -3.0, -13.5, -90.0})
        for (const double rejected : {-0.3, -10.25, -200.0}) {
          SCOPED_TRACE(testing::Message()
                       << "loss " << static_cast<int>(loss) << ", " << chosen << ", " << rejected);
          expect_formula(settings(loss, smoothing), {{chosen, 7}, {rejected, 4}}, reference);
        }
}

TEST(PreferenceLoss, is_the_logarithm_of_2_where_the_policy_is_the_reference) {
  const PairLogProbs same{{-5, 3}, {-8, 2}};
  const PairLoss found = pair_loss(settings(PreferenceLoss::kSigmoid), same, same);
  EXPECT_DOUBLE_EQ(found.loss, std::log(2));
  EXPECT_EQ(found.reward_chosen, 0);
  EXPECT_EQ(found.reward_rejected, 0);
}

TEST(PreferenceLoss, rewards_are_relative_to_the_reference_and_orpos_are_not) {
  const PairLogProbs policy{{-4, 2}, {-9, 3}}, reference{{-5, 2}, {-6, 3}};
  const PairLoss sums = pair_loss(settings(PreferenceLoss::kSigmoidNorm), policy, reference);
  EXPECT_DOUBLE_EQ(sums.reward_chosen, kBeta);
  EXPECT_DOUBLE_EQ(sums.reward_rejected, -3 * kBeta);
  EXPECT_EQ(sums.logp_rejected, -9);
  const PairLoss means = pair_loss(settings(PreferenceLoss::kOrpo), policy, reference);
  EXPECT_DOUBLE_EQ(means.reward_chosen, -2 * kBeta);
  EXPECT_EQ(means.logp_rejected, -3);
}

TEST(PreferenceLoss, stays_finite_where_answers_are_sure_or_impossible) {
  for (const PreferenceLoss loss : {PreferenceLoss::kSigmoid, PreferenceLoss::kHinge, PreferenceLoss::kOrpo})
    for (const double chosen : {0.0, -1e-30, -1e5})
      for (const double rejected : {0.0, -1e5}) {
        const PairLoss found = pair_loss(settings(loss), {{chosen, 3}, {rejected, 3}}, {{-1, 3}, {-1, 3}});
        EXPECT_TRUE(std::isfinite(found.loss)) << chosen << ", " << rejected;
        EXPECT_TRUE(std::isfinite(found.d_chosen)) << chosen << ", " << rejected;
        EXPECT_TRUE(std::isfinite(found.d_rejected)) << chosen << ", " << rejected;
      }
}

}  // namespace
}  // namespace sluice
