#include "ops/router.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::ops {
namespace {

constexpr std::int64_t kChoices = 3;

/// Adds the gradients of the router's own losses to those of what its logits are made of.
void add_losses(const at::Tensor& logits, const at::Tensor& probabilities, const RouterLossGrad& losses) {
  if (!losses.of_token.defined() && losses.z_scale == 0) return;
  at::Tensor loss = losses.z_scale / 2 * at::logsumexp(logits, 1).square();
  if (losses.of_token.defined()) loss = loss + (probabilities * losses.of_token.to(at::kDouble)).sum(1);
  if (losses.counted.defined()) loss = loss * losses.counted.to(at::kDouble);
  loss.sum().backward({}, true);
}

/// transformers' router in float64, for a choice already made.
at::Tensor formula(const at::Tensor& x, const at::Tensor& w, const at::Tensor& experts, bool normalize,
                   const RouterLossGrad& losses) {
  const at::Tensor logits = at::mm(x, w.t()), probabilities = at::softmax(logits, 1);
  const at::Tensor picked = probabilities.gather(1, experts);
  const at::Tensor weights = normalize ? picked / picked.sum(1, true) : picked;
  add_losses(logits, probabilities, losses);
  return weights;
}

TEST(Router, matches_its_formula) {
  const at::Tensor of_token = numbers({11}, at::kFloat, 5);
  const at::Tensor counted = numbers({40}, at::kFloat, 6) > 0;
  for (const at::ScalarType dtype : kDTypes)
    for (const bool normalize : {true, false})
      for (const RouterLossGrad& losses : {RouterLossGrad{},
                                           {of_token, {}},
                                           {of_token, counted},
                                           {{}, counted, 0.3F},
                                           {of_token, {}, 0.3F}}) {
        const at::Tensor x = numbers({40, 16}, dtype);
        const Parameter w = parameter(numbers({11, 16}, dtype, 2));
        const at::Tensor chosen = route(x, Parameter{w.value, {}}, {kChoices, normalize}).experts;
        expect_matches(
            [&](const Tensors& in, const Parameters& p) {
              return route(in[0], p[0], {kChoices, normalize}, {}, losses).weights;
            },
            [&](const Tensors& in, const Tensors& p) {
              return formula(in[0], p[0], chosen, normalize, losses);
            },
            {x}, {w});
      }
}

TEST(Router, matches_transformers_softmax_over_the_logits_of_the_chosen_with_a_bias) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor x = numbers({40, 16}, dtype);
    const Parameters parameters{parameter(numbers({11, 16}, dtype, 2)),
                                parameter(3 * numbers({11}, dtype, 3))};
    const auto logits = [](const at::Tensor& of, const at::Tensor& w, const at::Tensor& bias) {
      return at::mm(of, w.t()) + bias;
    };
    const at::Tensor chosen = std::get<1>(
        logits(x.to(at::kDouble), parameters[0].value.to(at::kDouble), parameters[1].value.to(at::kDouble))
            .topk(kChoices, 1));
    EXPECT_TRUE(route(x, Parameter{parameters[0].value, {}}, {kChoices, true}, {}, {}, parameters[1])
                    .experts.equal(chosen));
    expect_matches(
        [&](const Tensors& in, const Parameters& p) {
          return route(in[0], p[0], {kChoices, true}, {}, {}, p[1]).weights;
        },
        [&](const Tensors& in, const Tensors& p) {
          return at::softmax(logits(in[0], p[0], p[1]).gather(1, chosen), 1);
        },
        {x}, parameters);
  }
}

/// Of six groups of four experts two are chosen from.
RouterOptions sigmoid_options(bool normalize = true) {
  return {.experts_per_token = kChoices,
          .normalize_weights = normalize,
          .score = RouterScore::kSigmoid,
          .epsilon = 1e-3F,
          .scale = 2.5F,
          .groups = 6,
          .chosen_groups = 2,
          .correction_bias = numbers({24}, at::kFloat, 9) - 0.5};
}

/// transformers' Glm4MoeTopkRouter.
at::Tensor choice_by_formula(const at::Tensor& scores, const RouterOptions& options) {
  const at::Tensor corrected = scores + options.correction_bias;
  const at::Tensor grouped = corrected.view({scores.size(0), options.groups, -1});
  const at::Tensor sums = std::get<0>(grouped.topk(2, 2)).sum(2);
  const at::Tensor best = std::get<1>(sums.topk(options.chosen_groups, 1));
  const at::Tensor is_out = at::ones_like(sums, at::kBool).scatter(1, best, false).unsqueeze(2);
  return std::get<1>(grouped.masked_fill(is_out, -HUGE_VAL).flatten(1).topk(kChoices, 1));
}

TEST(Router, chooses_by_corrected_sigmoids_in_the_best_groups) {
  const RouterOptions options = sigmoid_options();
  const Routing routing = route(numbers({300, 16}), Parameter{numbers({24, 16}, at::kFloat, 2), {}}, options);
  EXPECT_TRUE(routing.experts.equal(choice_by_formula(routing.probabilities, options)));
  RouterOptions without = options;
  without.correction_bias.reset();
  EXPECT_FALSE(route(numbers({300, 16}), Parameter{numbers({24, 16}, at::kFloat, 2), {}}, without)
                   .experts.equal(routing.experts));
}

TEST(Router, may_choose_by_logits_where_the_scores_of_many_are_one) {
  const at::Tensor w = at::tensor({20.0F, 21.0F, 22.0F, 0.0F}).view({4, 1});
  RouterOptions options{.experts_per_token = 2, .normalize_weights = false, .score = RouterScore::kSigmoid};
  const auto choice = [&] { return route(at::ones({1, 1}), Parameter{w, {}}, options); };
  EXPECT_TRUE(choice().experts[0].equal(at::tensor({0, 1}, at::kLong))) << "all are 1 in float32";
  options.chooses_by_logits = true;
  const Routing routing = choice();
  EXPECT_TRUE(routing.experts[0].equal(at::tensor({2, 1}, at::kLong)));
  EXPECT_TRUE(routing.weights[0].equal(at::ones({2})));
}

TEST(Router, a_choice_by_logits_is_valid_even_where_they_are_broken) {
  RouterOptions options{.experts_per_token = 3, .score = RouterScore::kSigmoid, .chooses_by_logits = true};
  for (const float broken : {-HUGE_VALF, HUGE_VALF, std::nanf("")}) {
    const at::Tensor experts =
        route(at::ones({1, 1}), Parameter{at::full({5, 1}, broken), {}}, options).experts;
    EXPECT_TRUE(experts.equal(at::arange(3).unsqueeze(0)));
  }
}

TEST(Router, weights_and_gradients_know_nothing_of_the_correction) {
  for (const at::ScalarType dtype : kDTypes)
    for (const bool normalize : {true, false}) {
      const RouterOptions options = sigmoid_options(normalize);
      const at::Tensor x = numbers({40, 16}, dtype);
      const Parameter w = parameter(numbers({24, 16}, dtype, 2));
      const at::Tensor chosen = route(x, Parameter{w.value, {}}, options).experts;
      expect_matches(
          [&](const Tensors& in, const Parameters& p) { return route(in[0], p[0], options).weights; },
          [&](const Tensors& in, const Tensors& p) {
            const at::Tensor picked = at::sigmoid(at::mm(in[0], p[0].t())).gather(1, chosen);
            return 2.5 * (normalize ? picked / (picked.sum(1, true) + 1e-3) : picked);
          },
          {x}, {w});
    }
}

TEST(Router, has_a_z_loss_of_the_logits_of_sigmoids_too_however_large_and_of_those_with_a_bias) {
  for (const bool has_bias : {false, true})
    for (const at::ScalarType dtype : kDTypes) {
      RouterOptions options = sigmoid_options();
      options.score = has_bias ? RouterScore::kSoftmax : RouterScore::kSigmoid;
      const RouterLossGrad losses{{}, numbers({40}, at::kFloat, 6) > 0, 0.3F};
      const at::Tensor x = numbers({40, 16}, dtype);  // its sigmoids round to 1
      Parameters parameters{parameter(8 * numbers({24, 16}, dtype, 2))};
      if (has_bias) parameters.push_back(parameter(numbers({24}, dtype, 3)));
      const auto bias_of = [&](const Parameters& p) { return has_bias ? p[1] : Parameter(); };
      const at::Tensor chosen =
          route(x, Parameter{parameters[0].value, {}}, options, {}, {}, bias_of(parameters)).experts;
      expect_matches(
          [&](const Tensors& in, const Parameters& p) {
            return route(in[0], p[0], options, chosen, losses, bias_of(p)).weights;
          },
          [&](const Tensors& in, const Tensors& p) {
            at::Tensor logits = at::mm(in[0], p[0].t());
            if (has_bias) logits = logits + p[1];
            const at::Tensor scores = has_bias ? at::softmax(logits, 1) : at::sigmoid(logits);
            const at::Tensor picked = scores.gather(1, chosen);
            add_losses(logits, scores, losses);
            return 2.5 * picked / (picked.sum(1, true) + 1e-3);
          },
          {x}, parameters);
    }
}

TEST(Router, matches_transformers_corrected_softmax_with_a_least_sum_of_the_weights) {
  const RouterOptions options{.experts_per_token = kChoices,
                              .least_sum = 0.6F,
                              .correction_bias = 0.2 * numbers({1, 24}, at::kFloat, 9) - 0.1};
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor x = numbers({40, 16}, dtype);
    const Parameter w = parameter(numbers({24, 16}, dtype, 2));
    const Routing routing = route(x, Parameter{w.value, {}}, options);
    const at::Tensor sums = routing.probabilities.gather(1, routing.experts).sum(1);
    ASSERT_TRUE(sums.lt(0.59).any().item<bool>() && sums.gt(0.61).any().item<bool>());
    EXPECT_TRUE(routing.experts.equal(
        std::get<1>((routing.probabilities + options.correction_bias).topk(kChoices, 1))));
    expect_matches(
        [&](const Tensors& in, const Parameters& p) { return route(in[0], p[0], options).weights; },
        [&](const Tensors& in, const Tensors& p) {
          const at::Tensor picked = at::softmax(at::mm(in[0], p[0].t()), 1).gather(1, routing.experts);
          return picked / picked.sum(1, true).clamp_min(0.6);
        },
        {x}, {w});
  }
}

TEST(Router, matches_transformers_softmax_in_the_groups_with_the_largest_scores) {
  const RouterOptions options{.experts_per_token = kChoices,
                              .normalize_weights = false,
                              .scale = 16,
                              .groups = 6,
                              .chosen_groups = 2,
                              .scores_per_group = 1};
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor x = numbers({40, 16}, dtype);
    const Parameter w = parameter(numbers({24, 16}, dtype, 2));
    const Routing routing = route(x, Parameter{w.value, {}}, options);
    const at::Tensor largest = routing.probabilities.view({40, 6, 4}).amax(2);
    const at::Tensor best = std::get<1>(largest.topk(2, 1));
    const at::Tensor is_out = at::ones_like(largest, at::kBool).scatter(1, best, false).unsqueeze(2);
    const at::Tensor left = routing.probabilities.view({40, 6, 4}).masked_fill(is_out, 0).flatten(1);
    EXPECT_TRUE(routing.experts.equal(std::get<1>(left.topk(kChoices, 1))));
    expect_matches(
        [&](const Tensors& in, const Parameters& p) { return route(in[0], p[0], options).weights; },
        [&](const Tensors& in, const Tensors& p) {
          return 16 * at::softmax(at::mm(in[0], p[0].t()), 1).gather(1, routing.experts);
        },
        {x}, {w});
  }
}

TEST(Router, negative_corrections_bring_back_no_expert_of_a_group_that_is_out) {
  RouterOptions options = sigmoid_options();
  options.correction_bias = at::full({24}, -5.0F);
  options.correction_bias.narrow(0, 0, 8).fill_(-3.0F);
  const Routing routing = route(numbers({50, 16}), Parameter{numbers({24, 16}, at::kFloat, 2), {}}, options);
  EXPECT_TRUE(routing.experts.lt(8).all().item<bool>());
}

TEST(Router, stays_in_range_among_groups_of_what_are_no_numbers) {
  at::Tensor x = numbers({4, 16});
  x[0].fill_(std::nan(""));
  const at::Tensor experts = route(x, Parameter{numbers({24, 16}), {}}, sigmoid_options()).experts;
  EXPECT_TRUE((experts.ge(0) & experts.lt(24)).all().item<bool>());
  EXPECT_TRUE(experts[0].equal(at::arange(kChoices, at::kLong)));
}

TEST(Router, chooses_the_most_probable_experts_best_first) {
  const Routing routing =
      route(numbers({200, 16}), Parameter{numbers({100, 16}, at::kFloat, 2), {}}, {kChoices, true});
  const auto expected = routing.probabilities.topk(kChoices, 1);
  EXPECT_TRUE(routing.experts.equal(std::get<1>(expected)));
  expect_close(routing.weights, std::get<0>(expected) / std::get<0>(expected).sum(1, true), 1e-6);
}

TEST(Router, prefers_the_lower_index_among_equals) {
  const Routing routing = route(numbers({3, 16}), Parameter{at::zeros({11, 16}), {}}, {kChoices, true});
  EXPECT_TRUE(routing.experts.equal(at::arange(kChoices, at::kLong).expand({3, kChoices})));
}

TEST(Router, keeps_float32_probabilities_of_bfloat16_inputs) {
  const at::Tensor x = numbers({50, 16}, at::kBFloat16);
  const at::Tensor w = numbers({11, 16}, at::kBFloat16, 2);
  const Routing routing = route(x, Parameter{w, {}}, {kChoices, true});
  EXPECT_EQ(routing.weights.scalar_type(), at::kFloat);
  expect_close(routing.probabilities, at::softmax(at::mm(x.to(at::kDouble), w.to(at::kDouble).t()), 1), 1e-6);
}

TEST(Router, keeps_more_than_bfloat16_of_the_gradients_of_bfloat16_weights) {
  const at::Tensor x = numbers({50, 16}, at::kBFloat16).requires_grad_();
  const Parameter w = parameter(numbers({11, 16}, at::kBFloat16, 2));
  const Routing routing = route(x, w, {kChoices, true});
  routing.weights.backward(numbers({50, kChoices}, at::kFloat, 3));

  const at::Tensor leaf = w.value.to(at::kDouble).requires_grad_();
  formula(x.detach().to(at::kDouble), leaf, routing.experts, true, {})
      .backward(numbers({50, kChoices}, at::kFloat, 3).to(at::kDouble));
  expect_close(w.grad - 0.5, leaf.grad(), 3e-5);
}

TEST(Router, repeats_a_given_choice_exactly) {
  const at::Tensor x = numbers({50, 16}).requires_grad_();
  const Parameter w = parameter(numbers({11, 16}, at::kFloat, 2));
  const Routing first = route(x, w, {kChoices, true});
  const Routing second = route(x, w, {kChoices, true}, first.experts);
  EXPECT_TRUE(second.experts.equal(first.experts));
  EXPECT_TRUE(second.weights.equal(first.weights));
  const at::Tensor other = (first.experts + 1).remainder(11);
  EXPECT_TRUE(route(x, w, {kChoices, true}, other).experts.equal(other));
}

TEST(Router, stays_in_range_when_its_inputs_are_not_numbers) {
  const Routing routing =
      route(at::full({4, 16}, std::nan("")), Parameter{numbers({11, 16}), {}}, {kChoices, true});
  EXPECT_TRUE(routing.experts.equal(at::arange(kChoices, at::kLong).expand({4, kChoices})));
}

}  // namespace
}  // namespace sluice::ops
