#include "train/objective/preference_batch.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>

namespace sluice {
namespace {

constexpr std::int64_t kLength = 11;

/// Three sequences with two pairs, none and one; in each document the tokens after the first are prompt but for
/// the last `answer` ones.
Batch some_pairs() {
  Batch batch{3, kLength};
  batch.ids.assign(3 * (kLength + 1), 1);
  batch.marks.assign(batch.ids.size(), TokenMark::kPadding);
  const auto document = [&](std::int64_t sequence, std::int64_t first, std::int64_t tokens,
                            std::int64_t answer) {
    const auto begin = batch.marks.begin() + sequence * (kLength + 1) + first;
    std::fill_n(begin, tokens, TokenMark::kMasked);
    *begin = TokenMark::kBegins;
    std::fill_n(begin + tokens - answer, answer, TokenMark::kInside);
    return Range{first, first + tokens - 1};
  };
  const auto pair = [&](std::int64_t sequence, std::int64_t first, std::int64_t chosen,
                        std::int64_t rejected) {
    batch.pairs.push_back({.sequence = sequence,
                           .chosen = document(sequence, first, chosen, chosen / 2),
                           .rejected = document(sequence, first + chosen, rejected, 1)});
  };
  pair(0, 0, 4, 2);
  pair(0, 6, 2, 3);
  pair(2, 1, 5, 5);
  batch.global_pairs = 3;
  return batch;
}

std::vector<double> losses_of(const Batch& batch, double scale) {
  std::vector<double> losses;
  for (std::int64_t i = 0; i < batch.sequences * kLength; ++i)
    losses.push_back(scale * static_cast<double>(1 + i * i % 7));
  return losses;
}

/// The loss of a batch and its derivatives by the losses of tokens, by autograd over the same formulas.
struct Expected {
  double loss;
  std::vector<double> derivatives;
};
Expected by_autograd(const PreferSettings& s, const Batch& batch, const std::vector<double>& values) {
  const at::Tensor losses = at::tensor(values, at::kDouble).requires_grad_();
  at::Tensor pairs = at::zeros({}, at::kDouble), answers = pairs.clone(), documents = pairs.clone();
  double answer_tokens = 0, document_tokens = 0;
  const auto sum = [&](const PreferencePair& pair, Range targets, bool whole) {
    at::Tensor total = at::zeros({}, at::kDouble);
    double tokens = 0;
    for (std::int64_t t = targets.begin; t < targets.end; ++t) {
      const std::int64_t mark = pair.sequence * (kLength + 1) + t + 1;
      if (!whole && batch.marks[static_cast<std::size_t>(mark)] != TokenMark::kInside) continue;
      total = total + losses[pair.sequence * kLength + t];
      ++tokens;
    }
    return std::pair(total, tokens);
  };
  for (const PreferencePair& pair : batch.pairs) {
    const auto [w, w_tokens] = sum(pair, pair.chosen, false);
    const auto [l, l_tokens] = sum(pair, pair.rejected, false);
    if (s.loss == PreferenceLoss::kOrpo) {
      const at::Tensor mean_w = -w / w_tokens, mean_l = -l / l_tokens;
      const at::Tensor odds = mean_w - mean_l - ((-at::expm1(mean_w)).log() - (-at::expm1(mean_l)).log());
      pairs = pairs - s.beta * at::log_sigmoid(odds);
    } else {
      pairs = pairs - at::log_sigmoid(s.beta * (l - w));
    }
    answers = answers + w;
    answer_tokens += w_tokens;
    const auto [whole, whole_tokens] = sum(pair, pair.chosen, true);
    documents = documents + whole;
    document_tokens += whole_tokens;
  }
  at::Tensor loss = pairs / static_cast<double>(batch.pairs.size()) + s.sft_weight * answers / answer_tokens;
  if (s.loss == PreferenceLoss::kOrpo) loss = loss + documents / document_tokens;
  loss.backward();
  const at::Tensor& grad = losses.grad();
  return {loss.item<double>(), {grad.data_ptr<double>(), grad.data_ptr<double>() + grad.numel()}};
}

TEST(PreferenceBatch, has_the_loss_and_the_coefficients_of_autograd) {
  const Batch batch = some_pairs();
  const Range all{0, batch.sequences};
  const std::vector<double> losses = losses_of(batch, 0.1);
  for (const PreferenceLoss kind : {PreferenceLoss::kSigmoid, PreferenceLoss::kOrpo})
    for (const double sft_weight : {0.0, 0.7}) {
      const PreferSettings settings{.loss = kind, .beta = 0.4, .sft_weight = sft_weight};
      const PreferenceBatch pairs(settings, batch);
      PreferenceSums sums{};
      pairs.add(all, losses, sums);
      const Expected expected = by_autograd(settings, batch, losses);
      EXPECT_NEAR(preference_loss(settings, sums), expected.loss, 1e-12);
      const std::vector<double> found = pairs.coefficients(all, losses, pairs.counts());
      ASSERT_EQ(found.size(), expected.derivatives.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], expected.derivatives[i], 1e-12) << i;
    }
}

TEST(PreferenceBatch, is_the_same_in_one_piece_and_in_several) {
  const Batch batch = some_pairs();
  const std::vector<double> losses = losses_of(batch, 0.1), reference = losses_of(batch, 0.2);
  PreferenceBatch whole({}, batch), cut({}, batch);
  whole.set_reference({0, 3}, reference);
  PreferenceSums expected{}, found{};
  whole.add({0, 3}, losses, expected);
  std::vector<double> coefficients;
  for (const Range sequences : {Range{0, 2}, Range{2, 3}}) {
    const auto of = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + sequences.begin * kLength,
                                 all.begin() + sequences.end * kLength);
    };
    cut.set_reference(sequences, of(reference));
    cut.add(sequences, of(losses), found);
    const std::vector<double> part = cut.coefficients(sequences, of(losses), cut.counts());
    coefficients.insert(coefficients.end(), part.begin(), part.end());
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(coefficients, whole.coefficients({0, 3}, losses, whole.counts()));
  EXPECT_GT(expected[kChosenRewards], 0) << "the reference's losses are twice as large";
}

TEST(PreferenceBatch, a_pair_of_equal_rewards_is_neither_right_nor_has_it_a_margin) {
  const Batch batch = some_pairs();
  const std::vector<double> losses = losses_of(batch, 0.1);
  PreferenceBatch pairs({}, batch);
  pairs.set_reference({0, 3}, losses);
  PreferenceSums sums{};
  pairs.add({0, 3}, losses, sums);
  EXPECT_EQ(sums[kChosenRewards], sums[kRejectedRewards]);
  EXPECT_EQ(sums[kRightPairs], 0);
  EXPECT_EQ(sums[kPairsWithMargin], 0);
}

TEST(PreferenceBatch, counts_what_its_sums_count) {
  const Batch batch = some_pairs();
  const PreferenceBatch pairs({}, batch);
  PreferenceSums sums{};
  pairs.add({0, 3}, losses_of(batch, 0.1), sums);
  for (const PreferenceSum count : {kPairs, kAnswerTokens, kDocumentTokens})
    EXPECT_EQ(pairs.counts()[count], sums[count]);
  EXPECT_EQ(sums[kPairs], 3);
  EXPECT_EQ(sums[kAnswerTokens], 2 + 1 + 2);
  EXPECT_EQ(sums[kDocumentTokens], 3 + 1 + 4);
  EXPECT_EQ(pairs.counts()[kPairLosses], 0);
}

TEST(PreferenceBatch, of_no_pair_adds_nothing) {
  const Batch batch{0, kLength};
  const PreferenceBatch pairs({}, batch);
  EXPECT_EQ(pairs.counts(), PreferenceSums{});
  EXPECT_TRUE(pairs.coefficients({0, 0}, {}, PreferenceSums{}).empty());
}

}  // namespace
}  // namespace sluice
