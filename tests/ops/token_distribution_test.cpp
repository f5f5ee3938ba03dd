#include "ops/token_distribution.hpp"

#include "ops/loss.hpp"
#include "ops/op_check.hpp"
#include "ops/shared_draws.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sluice::ops {
namespace {

constexpr std::int64_t kHidden = 8;

/// Log-probabilities of all tokens, [T, V] float64.
at::Tensor log_probs(const at::Tensor& hidden, const at::Tensor& w, double temperature) {
  return at::log_softmax(at::mm(hidden.to(at::kDouble), w.to(at::kDouble).t()) / temperature, 1);
}

TokenDistribution made(const at::Tensor& hidden, const Weight& w, const BesideTargets& beside) {
  const at::Tensor targets = at::zeros({hidden.size(0)}, at::kLong);
  return linear_cross_entropy(hidden, w, targets, NoLossGradient(), beside).distribution;
}

TEST(TopTokens, are_the_most_probable_over_groups_and_tiles) {
  for (const std::int64_t vocabulary : {50, 3001}) {
    const at::Tensor hidden = numbers({1100, kHidden});
    const Parameter w{numbers({vocabulary, kHidden}, at::kFloat, 2), {}};
    for (const std::int64_t count : {std::int64_t{5}, vocabulary}) {
      const TokenDistribution found = made(hidden, w, TopTokens{count, 2});
      const at::Tensor all = log_probs(hidden, w.value, 2);
      const auto [expected, columns] = at::topk(all, count, 1);
      expect_close(found.values, expected, 1e-6);
      expect_close(all.gather(1, found.ids.to(at::kLong)), expected, 1e-6);
      EXPECT_TRUE((found.rest.exp() - (1 - expected.exp().sum(1))).abs().lt(1e-6).all().item<bool>());
    }
  }
}

TEST(TopTokens, leave_a_rest_that_is_exact_where_it_is_small) {
  const Parameter w{at::tensor({40.0F, 0.0F, -1.0F}).view({3, 1}), {}};
  const TokenDistribution found = made(at::ones({1, 1}), w, TopTokens{1, 1});
  EXPECT_NEAR(found.rest.item<float>(), std::log(1 + std::exp(-1.0)) - 40, 1e-5);
}

TEST(DrawnTokens, do_not_depend_on_the_company_in_which_they_are_drawn) {
  const at::Tensor hidden = numbers({1100, kHidden}), places = at::arange(1100, at::kLong) * 3;
  const Parameter w{numbers({3001, kHidden}, at::kFloat, 2), {}};
  const TokenDistribution all = made(hidden, w, DrawnTokens{16, 1, 7, places});
  EXPECT_TRUE(all.values.sum(1).eq(16).all().item<bool>());
  const TokenDistribution some =
      made(hidden.narrow(0, 1000, 64), w, DrawnTokens{16, 1, 7, places.narrow(0, 1000, 64)});
  const at::Tensor is_same = some.ids.eq(all.ids.narrow(0, 1000, 64)).all(1);
  EXPECT_GE(is_same.sum().item<std::int64_t>(), 62);  // another kernel may round a product otherwise
  EXPECT_FALSE(made(hidden, w, DrawnTokens{16, 1, 8, places}).ids.equal(all.ids));
}

/// Draws from logits [T, V] of which each of some ranks has those in `rows`.
at::Tensor drawn_by_ranks(const at::Tensor& logits, const DrawnTokens& wanted,
                          const std::vector<Range>& rows) {
  std::vector<SharedDraws> ranks;
  std::vector<at::Tensor> numbers, ids;
  const auto part = [&](const Range& own) { return logits.narrow(1, own.begin, own.count()); };
  for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank) {
    const Range& own = rows[static_cast<std::size_t>(rank)];
    ranks.emplace_back(wanted, logits, rows, rank).take(part(own), own.begin);
    numbers.push_back(ranks.back().numbers());
  }
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    ranks[rank].set(at::stack(numbers));
    ranks[rank].draw(part(rows[rank]), rows[rank].begin);
    ids.push_back(ranks[rank].ids());
  }
  return at::stack(ids).amax(0);
}

TEST(DrawnTokens, are_those_of_one_rank_wherever_the_vocabulary_is_cut) {
  constexpr std::int64_t kTokens = 300, kVocabulary = 5000;
  for (const double temperature : {1.0, 0.01}) {  // at the lower one most exponentials are 0
    const at::Tensor logits = numbers({kTokens, kVocabulary}) * 3;
    const DrawnTokens wanted{16, temperature, 7, at::arange(kTokens, at::kLong) * 3};
    DrawsOfTokens alone(wanted, logits);
    alone.take(logits, 0);
    const TokenDistribution expected = alone.result();
    for (const std::vector<std::int64_t>& cuts :
         std::vector<std::vector<std::int64_t>>{{0, 2048, 5000},
                                                {0, 1700, 3300, 5000},
                                                {0, 100, 1000, 1030, 4096, 5000},
                                                {0, 0, 1024, 1024, 4999, 5000},
                                                {0, 5000}}) {
      std::vector<Range> rows;
      for (std::size_t i = 1; i < cuts.size(); ++i) rows.push_back({cuts[i - 1], cuts[i]});
      const TokenDistribution found = counted_draws(drawn_by_ranks(logits, wanted, rows));
      EXPECT_GE(found.ids.eq(expected.ids).all(1).sum().item<std::int64_t>(), kTokens - 1);
      EXPECT_TRUE(found.values.sum(1).eq(16).all().item<bool>());
      EXPECT_TRUE(found.ids.select(1, 0).ge(0).all().item<bool>());
    }
  }
}

/// A teacher that names these tokens of its distribution.
TeacherTokens teacher_of(const at::Tensor& log_probs, std::int64_t count, double temperature, double weight) {
  const auto [values, ids] = at::topk(log_probs, count, 1);
  const at::Tensor weights = values.exp();
  const bool has_rest = count < log_probs.size(1);
  return {ids, weights, (1 - weights.sum(1)) * (has_rest ? 1.0 : 0.0), temperature, weight};
}

struct Gradients {
  at::Tensor losses, d_hidden, d_w;
};

/// (1 - weight) times the cross-entropy of targets plus weight times that of the teacher, others as one bin.
Gradients formula(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets,
                  const TeacherTokens& teacher, double scale) {
  const at::Tensor h = hidden.to(at::kDouble).requires_grad_(), v = w.to(at::kDouble).requires_grad_();
  const at::Tensor logits = at::mm(h, v.t());
  const at::Tensor named = at::log_softmax(logits / teacher.temperature, 1).gather(1, teacher.ids);
  const at::Tensor other = 1 - named.exp().sum(1);
  const at::Tensor of_rest = at::where(teacher.rest.gt(0), teacher.rest * other.clamp_min(1e-30).log(), 0.0);
  const at::Tensor losses =
      at::cross_entropy_loss(logits, targets, {}, at::Reduction::None) * (1 - teacher.weight) -
      ((teacher.weights * named).sum(1) + of_rest) * teacher.weight;
  (losses.sum() * scale).backward();
  return {losses.detach(), h.grad(), v.grad()};
}

TEST(TeacherTokens, have_the_loss_and_gradients_of_their_formula) {
  for (const auto& [tokens, vocabulary] : {std::pair{60, 3001}, std::pair{1100, 50}, std::pair{1000, 9001}})
    for (const double temperature : {1.0, 2.0})
      for (const double weight : {0.25, 1.0})
        for (const std::int64_t count : {std::int64_t{5}, std::int64_t{vocabulary}}) {
          if (count > 3001) continue;
          SCOPED_TRACE(testing::Message()
                       << tokens << " tokens, " << vocabulary << " words, temperature " << temperature
                       << ", weight " << weight << ", " << count << " named");
          const at::Tensor hidden = numbers({tokens, kHidden});
          const at::Tensor value = numbers({vocabulary, kHidden}, at::kFloat, 2);
          const Parameter w{value, at::zeros_like(value)};
          const at::Tensor targets = (at::arange(tokens, at::kLong) * 7919).remainder(vocabulary);
          const TeacherTokens teacher =
              teacher_of(log_probs(numbers({tokens, kHidden}, at::kFloat, 3), w.value, temperature), count,
                         temperature, weight);
          const double scale = 1.0 / tokens;
          const Gradients expected = formula(hidden, w.value, targets, teacher, scale);
          const CrossEntropy actual = linear_cross_entropy(hidden, w, targets, scale, teacher);
          expect_close(actual.losses, expected.losses, 1e-5);
          expect_close(actual.d_hidden, expected.d_hidden, 2e-5);
          expect_close(w.grad, expected.d_w, 2e-5);
          expect_close(actual.taught->own * (1 - weight) + actual.taught->teacher * weight, expected.losses,
                       1e-5);
        }
}

TEST(TeacherTokens, leave_a_token_without_a_distribution_to_its_target) {
  const at::Tensor hidden = numbers({20, kHidden}), targets = at::arange(20, at::kLong);
  const Parameter w = parameter(numbers({50, kHidden}, at::kFloat, 2)), alone = parameter(w.value);
  const TeacherTokens none{at::full({20, 3}, -1, at::kLong), at::zeros({20, 3}, at::kDouble),
                           at::zeros({20}, at::kDouble), 2, 0.75};
  const CrossEntropy actual = linear_cross_entropy(hidden, w, targets, 1.0, none);
  const CrossEntropy expected = linear_cross_entropy(hidden, alone, targets, 1.0);
  EXPECT_TRUE(actual.losses.equal(expected.losses));
  EXPECT_TRUE(actual.d_hidden.equal(expected.d_hidden));
  EXPECT_TRUE(w.grad.equal(alone.grad));
  EXPECT_FALSE(actual.taught->is_taught.any().item<bool>());
}

TEST(TeacherTokens, that_were_drawn_give_the_exact_gradient_on_average) {
  constexpr std::int64_t kDraws = 1000, kTokens = 64, kVocabulary = 40, kSamples = 4;
  const at::Tensor hidden = numbers({kTokens, kHidden}),
                   of_teacher = numbers({kTokens, kHidden}, at::kFloat, 3);
  const Parameter w{numbers({kVocabulary, kHidden}, at::kFloat, 2), {}};
  const at::Tensor all = log_probs(of_teacher, w.value, 1), targets = at::zeros({kTokens}, at::kLong);
  const at::Tensor exact = linear_cross_entropy(hidden, w, targets, 1.0, teacher_of(all, kVocabulary, 1, 1))
                               .d_hidden.to(at::kDouble);
  at::Tensor sum = at::zeros_like(exact), squares = at::zeros_like(exact);
  for (std::int64_t draw = 0; draw < kDraws; ++draw) {
    const at::Tensor places = at::arange(kTokens, at::kLong) + draw * kTokens;
    const TokenDistribution drawn = made(of_teacher, w, DrawnTokens{kSamples, 1, 5, places});
    const TeacherTokens teacher{drawn.ids.to(at::kLong), drawn.values.to(at::kDouble) / kSamples,
                                at::zeros({kTokens}, at::kDouble), 1, 1};
    const at::Tensor gradient =
        linear_cross_entropy(hidden, w, targets, 1.0, teacher).d_hidden.to(at::kDouble);
    sum += gradient;
    squares += (gradient - exact).square();
  }
  // The variance of the mean by the formula: that of one draw over all, for each of the kSamples draws.
  const at::Tensor p = all.exp(), v = w.value.to(at::kDouble);
  const at::Tensor mean = at::mm(p, v);
  const double of_one = ((at::mm(p, v.square()) - mean.square()).sum() / kSamples).item<double>();
  const double distance = (sum / kDraws - exact).square().sum().item<double>();
  EXPECT_GT(distance, 0.8 * of_one / kDraws);
  EXPECT_LT(distance, 1.25 * of_one / kDraws);
  EXPECT_NEAR(squares.sum().item<double>() / kDraws, of_one, 0.1 * of_one);
}

}  // namespace
}  // namespace sluice::ops
