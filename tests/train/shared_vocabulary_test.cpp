#include "train/shared_vocabulary.hpp"

#include "model/small_model.hpp"
#include "ops/loss.hpp"
#include "support/mpi_test.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr std::int64_t kVocabulary = 29, kHidden = 24, kLowRank = 2;

/// Numbers that are the same wherever they are made.
at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return (at::arange(count, at::kDouble) * 1.7 + phase).sin().to(at::kFloat).view(shape);
}

/// A head of all rows, or of some, with gradients.
struct HeadRows {
  HeadRows(Range rows, bool is_adapted, const ops::Dropout& dropout)
      : base{part(numbers({kVocabulary, kHidden}, 0), rows), at::zeros({rows.count(), kHidden})},
        a{numbers({kLowRank, kHidden}, 1), at::zeros({kLowRank, kHidden})},
        b{part(numbers({kVocabulary, kLowRank}, 2), rows), at::zeros({rows.count(), kLowRank})},
        weight(is_adapted ? ops::Weight(base, ops::Lora{a, b, 0.5, &dropout, 3}) : ops::Weight(base)) {}
  static at::Tensor part(const at::Tensor& all, Range rows) {
    return all.narrow(0, rows.begin, rows.count()).clone();
  }
  ops::Parameter base, a, b;
  ops::Weight weight;
};

/// Tokens of a rank: each has others, and another number of them, the second none.
struct Tokens {
  explicit Tokens(int rank)
      : count(rank == 1 ? 0 : 3 + 2 * rank),
        hidden(numbers({count, kHidden}, 10 + rank)),
        targets((at::arange(count, at::kLong) * 5 + rank) % kVocabulary) {
    if (count > 2) targets[1] = ops::kNoTarget;
  }
  std::int64_t count;
  at::Tensor hidden, targets;
  /// The teacher names `width` tokens at each target but the first.
  [[nodiscard]] ops::TeacherTokens teacher(std::int64_t width) const {
    ops::TeacherTokens out;
    out.ids = ((at::arange(count * width, at::kInt) * 7) % kVocabulary).view({count, width}).to(at::kInt);
    out.weights = at::full({count, width}, 0.8 / static_cast<double>(width), at::kFloat);
    out.rest = at::full({count}, 0.2, at::kFloat);
    if (count > 0) {
      out.weights[0].zero_();
      out.rest[0].zero_();
    }
    out.temperature = 1.5;
    out.weight = 0.25;
    return out;
  }
};

class SharedVocabularyTest : public testing::Test {
 protected:
  /// A rank alone has all rows, and needs no exchange.
  void SetUp() override {
    if (test::test_world().size() > 1) shared_.emplace(test::test_world(), plan_, stages_, timer_);
  }
  [[nodiscard]] SharedVocabulary* shared() { return shared_ ? &*shared_ : nullptr; }
  [[nodiscard]] Range own_rows() { return shared_ ? shared_->own_rows() : Range{0, kVocabulary}; }

  /// Ranks find together what one with all rows finds for the same tokens.
  void expect_same(const ops::LossCoefficients& coefficients, bool is_adapted = false,
                   const std::function<ops::BesideTargets(const Tokens&, int rank)>& beside = {}) {
    Communicator& comm = test::test_world();
    const auto asked = [&](const Tokens& tokens, int rank) {
      return beside ? beside(tokens, rank) : ops::BesideTargets();
    };
    const Range own = own_rows();
    const ops::Dropout dropout{is_adapted ? 0.3 : 0.0, 5};
    HeadRows rows(own, is_adapted, dropout), whole({0, kVocabulary}, is_adapted, dropout);
    ops::CrossEntropy expected;
    const Tokens tokens(comm.rank());
    for (int rank = 0; rank < comm.size(); ++rank) {
      const Tokens of_rank(rank);
      ops::CrossEntropy found = ops::linear_cross_entropy(of_rank.hidden, whole.weight, of_rank.targets,
                                                          coefficients, asked(of_rank, rank));
      if (rank == comm.rank()) expected = std::move(found);
    }
    const ops::CrossEntropy found = ops::linear_cross_entropy(
        tokens.hidden, rows.weight, tokens.targets, coefficients, asked(tokens, comm.rank()), shared());
    const auto expect_close = [](const at::Tensor& is, const at::Tensor& should_be, const char* what) {
      ASSERT_EQ(is.defined(), should_be.defined()) << what;
      if (!is.defined()) return;
      EXPECT_TRUE(at::allclose(is.to(at::kDouble), should_be.to(at::kDouble), 1e-4, 1e-5))
          << what << is << should_be;
    };
    expect_close(found.losses, expected.losses, "losses");
    expect_close(found.greedy, expected.greedy, "greedy");
    expect_close(found.d_hidden, expected.d_hidden, "gradient of hidden states");
    if (tokens.count > 0 && expected.distribution.ids.defined()) {
      EXPECT_TRUE(found.distribution.ids.equal(expected.distribution.ids));
      expect_close(found.distribution.values, expected.distribution.values, "log-probabilities");
      expect_close(found.distribution.rest, expected.distribution.rest, "rest");
    }
    if (tokens.count > 0 && expected.taught) {
      expect_close(found.taught->own, expected.taught->own, "losses of targets");
      expect_close(found.taught->teacher, expected.taught->teacher, "losses with the teacher");
      expect_close(found.taught->entropies, expected.taught->entropies, "entropies");
    }
    expect_close(rows.base.grad, HeadRows::part(whole.base.grad, own), "gradient of the head");
    expect_close(rows.b.grad, HeadRows::part(whole.b.grad, own), "gradient of B");
    std::vector<double> a(static_cast<std::size_t>(rows.a.grad.numel()));
    std::copy_n(rows.a.grad.data_ptr<float>(), a.size(), a.begin());
    comm.all_reduce_sum(std::span(a));
    expect_close(torch::from_blob(a.data(), rows.a.grad.sizes(), at::kDouble).to(at::kFloat), whole.a.grad,
                 "gradient of A, summed");
  }

  const test::SmallModel model_{nlohmann::json::object(), DType::kFloat32, {}, Vocabulary::kByRows};
  const ShardPlan plan_{model_.layouts, {.world = test::test_world().size()}};
  const StagePlan stages_ = make_stage_plan(model_.layouts, TiedHead::kNo);
  PhaseTimer timer_;
  std::optional<SharedVocabulary> shared_;
};

/// Coefficients that follow from the losses of a rank's tokens.
const ops::CoefficientsOfLosses kOfLosses = [](const at::Tensor& losses) {
  return losses * 0.1 + losses.sum();
};

TEST_F(SharedVocabularyTest, finds_losses_and_gradients_that_one_rank_finds) {
  expect_same(ops::NoLossGradient());
  expect_same(0.5);
  expect_same(kOfLosses);
}

TEST_F(SharedVocabularyTest, has_an_adapter_with_dropout) {
  expect_same(0.5, true);
  expect_same(kOfLosses, true);
}

TEST_F(SharedVocabularyTest, finds_the_most_probable_tokens) {
  expect_same(ops::NoLossGradient(), false, [](const Tokens&, int) { return ops::TopTokens{12, 0.7}; });
}

TEST_F(SharedVocabularyTest, draws_the_same_tokens) {
  expect_same(ops::NoLossGradient(), false, [](const Tokens& tokens, int rank) {
    return ops::DrawnTokens{12, 0.7, 5, at::arange(tokens.count, at::kLong) + 100 * rank};
  });
}

TEST_F(SharedVocabularyTest, learns_from_teachers_that_name_more_tokens_on_some_ranks) {
  for (const ops::LossCoefficients& coefficients :
       {ops::LossCoefficients(0.5), ops::LossCoefficients(kOfLosses)})
    expect_same(coefficients, false,
                [](const Tokens& tokens, int rank) { return tokens.teacher(rank == 1 ? 0 : 1 + rank % 3); });
}

TEST_F(SharedVocabularyTest, gives_each_rank_all_logits_of_its_tokens) {
  for (const bool is_adapted : {false, true}) {
    const ops::Dropout dropout{0, 5};
    const HeadRows rows(own_rows(), is_adapted, dropout), whole({0, kVocabulary}, is_adapted, dropout);
    const Tokens tokens(test::test_world().rank());
    const at::Tensor found = ops::logits(tokens.hidden, rows.weight, shared());
    EXPECT_TRUE(at::allclose(found, ops::logits(tokens.hidden, whole.weight), 1e-4, 1e-5));
  }
}

}  // namespace
}  // namespace sluice
