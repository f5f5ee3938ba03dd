#include "ops/loss.hpp"

#include "base/error.hpp"
#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace sluice::ops {
namespace {

struct Expected {
  double loss_sum;
  at::Tensor d_hidden, d_w;
};

double total(const at::Tensor& losses) { return losses.sum().item<double>(); }

/// `logit_cap`: bound of the logits, 0 for none.
Expected formula(const at::Tensor& hidden, const at::Tensor& w, const at::Tensor& targets, double scale,
                 double logit_cap) {
  const at::Tensor h = hidden.detach().to(at::kDouble).requires_grad_();
  const at::Tensor weight = w.detach().to(at::kDouble).requires_grad_();
  at::Tensor logits = at::mm(h, weight.t());
  if (logit_cap > 0) logits = at::tanh(logits / logit_cap) * logit_cap;
  const at::Tensor loss = at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum);
  (loss * scale).backward();
  return {loss.item<double>(), h.grad(), weight.grad()};
}

void expect_matches_formula(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width,
                            at::ScalarType dtype, float logit_cap = 0) {
  const at::Tensor hidden = numbers({tokens, width}, dtype);
  const Parameter w = parameter(numbers({vocabulary, width}, dtype, 2));
  const at::Tensor targets = (at::arange(tokens, at::kLong) * 7919).remainder(vocabulary);
  const double scale = 1.0 / static_cast<double>(tokens);
  const double tolerance = dtype == at::kFloat ? 1e-5 : 2e-2;
  const Expected expected = formula(hidden, w.value, targets, scale, logit_cap);
  const CrossEntropy actual = linear_cross_entropy(hidden, w, targets, scale, {}, nullptr, logit_cap);
  ASSERT_EQ(actual.losses.sizes(), at::IntArrayRef({tokens}));
  EXPECT_NEAR(total(actual.losses), expected.loss_sum,
              expected.loss_sum * (dtype == at::kFloat ? 1e-6 : 1e-3));
  expect_close(actual.d_hidden, expected.d_hidden, tolerance);
  expect_close(w.grad - 0.5, expected.d_w, tolerance);
}

TEST(LinearCrossEntropy, matches_its_formula) {
  for (const at::ScalarType dtype : kDTypes) expect_matches_formula(50, 300, 16, dtype);
}

TEST(LinearCrossEntropy, matches_its_formula_over_several_tiles_of_the_vocabulary) {
  for (const at::ScalarType dtype : kDTypes) {
    expect_matches_formula(60, 3001, 8, dtype);    // kept for the gradient
    expect_matches_formula(1000, 9001, 8, dtype);  // computed twice
  }
}

TEST(LinearCrossEntropy, matches_its_formula_over_several_groups_of_tokens) {
  expect_matches_formula(1100, 50, 8, at::kFloat);
}

TEST(LinearCrossEntropy, matches_its_formula_with_bounded_logits) {
  for (const at::ScalarType dtype : kDTypes) expect_matches_formula(50, 300, 16, dtype, 1.5F);
  expect_matches_formula(60, 3001, 8, at::kFloat, 1.5F);  // over several tiles
}

TEST(LinearCrossEntropy, takes_a_coefficient_of_each_token_from_the_losses_of_all) {
  constexpr std::int64_t kWidth = 8;
  for (const auto& [tokens, vocabulary] : {std::pair{60, 3001}, std::pair{1100, 50}, std::pair{1100, 9001}}) {
    SCOPED_TRACE(testing::Message() << tokens << " tokens, " << vocabulary << " words");
    const at::Tensor hidden = numbers({tokens, kWidth});
    const Parameter w = parameter(numbers({vocabulary, kWidth}, at::kFloat, 2));
    const at::Tensor targets = (at::arange(tokens, at::kLong) * 7919).remainder(vocabulary);
    const at::Tensor h = hidden.to(at::kDouble).requires_grad_(),
                     v = w.value.to(at::kDouble).requires_grad_();
    at::cross_entropy_loss(at::mm(h, v.t()), targets, {}, at::Reduction::None).square().mean().backward();
    const CrossEntropy actual = linear_cross_entropy(
        hidden, w, targets,
        [count = tokens](const at::Tensor& losses) { return losses * 2 / static_cast<double>(count); });
    expect_close(actual.d_hidden, h.grad(), 1e-5);
    expect_close(w.grad - 0.5, v.grad(), 1e-5);
  }
}

TEST(LinearCrossEntropy, has_the_same_bits_for_one_coefficient_and_for_equal_ones) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor hidden = numbers({1100, 8}, dtype), targets = at::arange(1100, at::kLong).remainder(50);
    const Parameter one = parameter(numbers({50, 8}, dtype, 2)), equal = parameter(one.value);
    const CrossEntropy expected = linear_cross_entropy(hidden, one, targets, 1.0 / 1100);
    const CrossEntropy actual = linear_cross_entropy(
        hidden, equal, targets, [](const at::Tensor& losses) { return at::full_like(losses, 1.0 / 1100); });
    EXPECT_TRUE(actual.losses.equal(expected.losses));
    EXPECT_TRUE(actual.d_hidden.equal(expected.d_hidden));
    EXPECT_TRUE(equal.grad.equal(one.grad));
  }
}

TEST(LinearCrossEntropy, gives_the_loss_alone_when_no_gradient_is_wanted) {
  const at::Tensor hidden = numbers({20, 16});
  const Parameter w = parameter(numbers({30, 16}, at::kFloat, 2));
  const at::Tensor targets = at::arange(20, at::kLong);
  const CrossEntropy alone = linear_cross_entropy(hidden, w, targets, NoLossGradient());
  EXPECT_FALSE(alone.d_hidden.defined());
  EXPECT_TRUE(w.grad.eq(0.5F).all().item<bool>());
  EXPECT_TRUE(alone.losses.equal(linear_cross_entropy(hidden, Parameter{w.value, {}}, targets, 1.0).losses));
}

TEST(LinearCrossEntropy, tells_which_targets_are_the_most_probable_tokens) {
  const at::Tensor hidden = numbers({1100, 8});
  const Parameter w = parameter(numbers({50, 8}, at::kFloat, 2));
  const at::Tensor best = at::mm(hidden, w.value.t()).argmax(1),
                   even = at::arange(1100, at::kLong).remainder(2);
  const at::Tensor targets = at::where(even.eq(0), best, (best + 1).remainder(50));
  targets[4] = kNoTarget;
  const at::Tensor greedy = linear_cross_entropy(hidden, w, targets, NoLossGradient()).greedy;
  const at::Tensor expected = even.eq(0);
  expected[4] = false;
  EXPECT_TRUE(greedy.equal(expected));
}

TEST(LinearCrossEntropy, keeps_the_gradient_of_a_sure_token_exact) {
  const at::Tensor hidden = at::full({1, 1}, 60.0F);
  const Parameter w = parameter(at::tensor({1.0F, 0.0F, -1.0F}).view({3, 1}));
  const CrossEntropy result = linear_cross_entropy(hidden, w, at::zeros({1}, at::kLong), 1.0);
  EXPECT_EQ(total(result.losses), 0.0);
  EXPECT_NEAR(result.d_hidden.item<float>(), 0.0, 1e-20);
}

TEST(LinearCrossEntropy, leaves_out_tokens_without_a_target) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor hidden = numbers({7, 16}, dtype);
    const at::Tensor targets = at::tensor({3, 29, 0, 11, 5, 8, 2}, at::kLong);
    const at::Tensor kept = at::tensor({0, 2, 3, 6}, at::kLong);
    const Parameter w = parameter(numbers({30, 16}, dtype, 2));
    const CrossEntropy expected =
        linear_cross_entropy(hidden.index_select(0, kept), w, targets.index_select(0, kept), 0.25);
    const Parameter again = parameter(w.value);
    const at::Tensor some =
        at::full_like(targets, kNoTarget).index_copy_(0, kept, targets.index_select(0, kept));
    const CrossEntropy actual = linear_cross_entropy(hidden, again, some, 0.25);
    // Four rows and seven may be summed in another order, by another kernel.
    EXPECT_NEAR(total(actual.losses), total(expected.losses), 1e-6 * total(expected.losses));
    EXPECT_EQ(actual.losses[1].item<double>(), 0.0);
    expect_close(actual.d_hidden.index_select(0, kept), expected.d_hidden);
    EXPECT_TRUE(actual.d_hidden[4].eq(0).all().item<bool>());
    expect_close(again.grad, w.grad);
  }
}

TEST(LinearCrossEntropy, refuses_a_target_outside_the_vocabulary) {
  const Parameter w{numbers({30, 16}), {}};
  EXPECT_THROW(
      (void)linear_cross_entropy(numbers({1, 16}), w, at::full({1}, 30, at::kLong), NoLossGradient()), Error);
}

TEST(Logits, are_float32) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor hidden = numbers({20, 16}, dtype);
    const at::Tensor w = numbers({30, 16}, dtype, 2);
    const at::Tensor values = logits(hidden, Parameter{w, {}});
    EXPECT_EQ(values.scalar_type(), at::kFloat);
    expect_close(values, at::mm(hidden.to(at::kDouble), w.t().to(at::kDouble)),
                 dtype == at::kFloat ? 1e-6 : 1e-2);
  }
}

}  // namespace
}  // namespace sluice::ops
