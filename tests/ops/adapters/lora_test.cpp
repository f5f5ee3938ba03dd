#include "ops/adapters/lora.hpp"

#include "ops/adapters/lora_product.hpp"
#include "ops/experts.hpp"
#include "ops/linear.hpp"
#include "ops/loss.hpp"
#include "ops/op_check.hpp"
#include "ops/router.hpp"
#include "support/no_exchange.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

constexpr std::int64_t kInputs = 48, kOutputs = 40, kLowRank = 6;
constexpr double kChange = 0.75;

/// A frozen weight with an adapter.
Weight adapted_weight(const at::Tensor& frozen, const Parameter& a, const Parameter& b,
                      const Dropout* dropout = nullptr) {
  return {Parameter{frozen, {}}, Lora{a, b, kChange, dropout, 3}};
}

at::Tensor changed_matrix(const at::Tensor& frozen, const at::Tensor& a, const at::Tensor& b) {
  return frozen.to(at::kDouble) + kChange * at::matmul(b, a);
}

Parameters lora_parameters(at::ScalarType dtype, std::int64_t in = kInputs, std::int64_t out = kOutputs) {
  return {parameter(numbers({kLowRank, in}, dtype, 3) * 0.3),
          parameter(numbers({out, kLowRank}, dtype, 4) * 0.3)};
}

TEST(Lora, changes_a_product_as_its_formula_says) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor frozen = numbers({kOutputs, kInputs}, dtype, 2);
    expect_matches([&](const Tensors& in,
                       const Parameters& p) { return linear(in[0], adapted_weight(frozen, p[0], p[1])); },
                   [&](const Tensors& in, const Tensors& p) {
                     return at::mm(in[0], changed_matrix(frozen, p[0], p[1]).t());
                   },
                   {numbers({37, kInputs}, dtype)}, lora_parameters(dtype));
  }
}

TEST(Lora, leaves_out_the_same_inputs_forward_and_backward) {
  const Dropout dropout{0.4, 1, 7, 100};
  const at::Tensor frozen = numbers({kOutputs, kInputs}, at::kFloat, 2);
  const Parameters p = lora_parameters(at::kFloat);
  const at::Tensor kept =
      with_dropout(at::ones({37, kInputs}), dropout_draw(*adapted_weight(frozen, p[0], p[1], &dropout).lora));
  expect_matches(
      [&](const Tensors& in, const Parameters& q) {
        return linear(in[0], adapted_weight(frozen, q[0], q[1], &dropout));
      },
      [&](const Tensors& in, const Tensors& q) {
        return at::mm(in[0], frozen.to(at::kDouble).t()) +
               kChange * at::mm(at::mm(in[0] * kept.to(at::kDouble), q[0].t()), q[1].t());
      },
      {numbers({37, kInputs})}, p);
}

TEST(Lora, for_its_graph_alone_gives_the_gradients_of_a_pass_for_its_output) {
  const at::Tensor frozen = numbers({kOutputs, kInputs}, at::kFloat, 2);
  std::vector<Tensors> grads;
  for (const Purpose purpose : {Purpose::kOutput, Purpose::kGraph}) {
    const Parameters p = lora_parameters(at::kFloat);
    const at::Tensor x = numbers({5, kInputs}).requires_grad_();
    linear(x, adapted_weight(frozen, p[0], p[1]), purpose).backward(numbers({5, kOutputs}, at::kFloat, 3));
    grads.push_back({x.grad(), p[0].grad, p[1].grad});
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(grads[0][i].equal(grads[1][i]));
}

TEST(Dropout, draws_by_the_place_of_a_token_in_the_step_whoever_has_it) {
  const Parameters p = lora_parameters(at::kFloat);
  const at::Tensor frozen = numbers({kOutputs, kInputs}, at::kFloat, 2), x = at::ones({20, kInputs});
  Dropout dropout{0.25, 1, 7, 0};
  const Weight w = adapted_weight(frozen, p[0], p[1], &dropout);
  const at::Tensor all = with_dropout(x, dropout_draw(*w.lora));
  dropout.first_token = 13;
  EXPECT_TRUE(with_dropout(x.narrow(0, 13, 7), dropout_draw(*w.lora)).equal(all.narrow(0, 13, 7)));
  EXPECT_NEAR(all.eq(0).to(at::kFloat).mean().item<double>(), 0.25, 0.04);
  EXPECT_NEAR(all.max().item<double>(), 1 / 0.75, 1e-6);
  dropout.first_token = 0;
  dropout.step = 8;
  EXPECT_FALSE(with_dropout(x, dropout_draw(*w.lora)).equal(all)) << "another step draws anew";
}

TEST(Lora, changes_each_of_fused_experts) {
  constexpr std::int64_t kExperts = 4, kHidden = 24, kInner = 12;
  const at::Tensor chosen =
      at::stack({at::arange(31, at::kLong).remainder(3), at::full({31}, 3, at::kLong)}, 1);
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor gate_up = numbers({kExperts, 2 * kInner, kHidden}, dtype, 5) * 0.3;
    const at::Tensor down = numbers({kExperts, kHidden, kInner}, dtype, 6) * 0.3;
    const Parameters p{parameter(numbers({kExperts, kLowRank, kHidden}, dtype, 7) * 0.3),
                       parameter(numbers({kExperts, 2 * kInner, kLowRank}, dtype, 8) * 0.3),
                       parameter(numbers({kExperts, kLowRank, kInner}, dtype, 9) * 0.3),
                       parameter(numbers({kExperts, kHidden, kLowRank}, dtype, 10) * 0.3)};
    const auto formula = [&](const Tensors& in, const Tensors& q) {
      const at::Tensor all_gate_up = changed_matrix(gate_up, q[0], q[1]),
                       all_down = changed_matrix(down, q[2], q[3]);
      at::Tensor sum = at::zeros_like(in[0]);
      for (std::int64_t e = 0; e < kExperts; ++e) {
        const auto halves = at::mm(in[0], all_gate_up[e].t()).chunk(2, 1);
        const at::Tensor weight = (in[1] * chosen.eq(e).to(in[1].scalar_type())).sum(1, true);
        sum = sum + at::mm(at::silu(halves[0]) * halves[1], all_down[e].t()) * weight;
      }
      return sum;
    };
    expect_matches(
        [&](const Tensors& in, const Parameters& q) {
          static test::NoExchange all_here;
          return experts(in[0], {adapted_weight(gate_up, q[0], q[1]), adapted_weight(down, q[2], q[3])},
                         {chosen, in[1].to(at::kFloat), {}}, all_here);
        },
        formula, {numbers({31, kHidden}, dtype), numbers({31, 2}, dtype, 2).abs() + 0.1}, p);
  }
}

TEST(Lora, changes_a_router) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor frozen = numbers({11, kInputs}, dtype, 2) * 0.3;
    const Parameters p = lora_parameters(dtype, kInputs, 11);
    const at::Tensor x = numbers({40, kInputs}, dtype);
    const at::Tensor chosen = route(x, adapted_weight(frozen, p[0], p[1]), {3, true}).experts;
    expect_matches(
        [&](const Tensors& in, const Parameters& q) {
          return route(in[0], adapted_weight(frozen, q[0], q[1]), {3, true}, chosen).weights;
        },
        [&](const Tensors& in, const Tensors& q) {
          const at::Tensor probabilities =
              at::softmax(at::mm(in[0], changed_matrix(frozen, q[0], q[1]).t()), 1);
          const at::Tensor picked = probabilities.gather(1, chosen);
          return picked / picked.sum(1, true);
        },
        {x}, p);
  }
}

TEST(Lora, changes_a_head_over_several_tiles_and_groups) {
  constexpr std::int64_t kTokens = 1100, kWords = 2100, kWidth = 16;
  for (const double rate : {0.0, 0.3}) {
    const Dropout dropout{rate, 1, 2, 50};
    const at::Tensor hidden = numbers({kTokens, kWidth}), frozen = numbers({kWords, kWidth}, at::kFloat, 2);
    const Parameters p = lora_parameters(at::kFloat, kWidth, kWords);
    const Weight w = adapted_weight(frozen, p[0], p[1], &dropout);
    const at::Tensor targets = (at::arange(kTokens, at::kLong) * 7919).remainder(kWords);
    const at::Tensor kept = with_dropout(at::ones_like(hidden), dropout_draw(*w.lora)).to(at::kDouble);
    const auto leaf = [](const at::Tensor& t) { return t.detach().to(at::kDouble).requires_grad_(); };
    const at::Tensor h = leaf(hidden), a = leaf(p[0].value), b = leaf(p[1].value);
    const at::Tensor logits =
        at::mm(h, frozen.to(at::kDouble).t()) + kChange * at::mm(at::mm(h * kept, a.t()), b.t());
    (at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum) * 0.01).backward();

    const CrossEntropy actual = linear_cross_entropy(hidden, w, targets, 0.01);
    expect_close(actual.losses, at::cross_entropy_loss(logits, targets, {}, at::Reduction::None), 1e-5);
    expect_close(actual.d_hidden, h.grad(), 1e-5);
    expect_close(p[0].grad - 0.5, a.grad(), 1e-4);
    expect_close(p[1].grad - 0.5, b.grad(), 1e-4);
  }
}

}  // namespace
}  // namespace sluice::ops
