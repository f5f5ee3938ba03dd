#include "train/load_balancing.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace sluice {
namespace {

constexpr std::int64_t kExperts = 7;
constexpr std::int64_t kChoices = 3;
constexpr std::int64_t kTokens = 40;
constexpr std::int64_t kLayers = 3;

/// transformers' load_balancing_loss_func: probabilities [layers x tokens, experts] of all layers together.
at::Tensor formula(const at::Tensor& probabilities) {
  const at::Tensor chosen = std::get<1>(probabilities.topk(kChoices, -1));
  const at::Tensor mask = at::one_hot(chosen, kExperts).to(at::kDouble);
  const at::Tensor tokens_per_expert = mask.mean(0);  // [choices, experts]
  const at::Tensor mean_probability = probabilities.mean(0);
  return (tokens_per_expert * mean_probability.unsqueeze(0)).sum() * kExperts;
}

/// [layers x tokens, experts], skewed so that experts differ in use.
at::Tensor router_probabilities() {
  const at::Tensor logits =
      at::randn({kLayers * kTokens, kExperts}, at::detail::createCPUGenerator(5), at::kDouble);
  return at::softmax(logits + at::arange(kExperts) * 0.3, -1);
}

RoutingSums sums_of(const at::Tensor& probabilities) {
  const at::Tensor chosen = std::get<1>(probabilities.topk(kChoices, -1));
  return {at::bincount(chosen.flatten(), {}, kExperts), probabilities.sum(0), at::ones({}, at::kDouble)};
}

/// A dense layer among the MoE layers.
RoutingTotals totals_of(const at::Tensor& probabilities) {
  const auto layers = probabilities.chunk(kLayers, 0);
  return collect({sums_of(layers[0]), {}, sums_of(layers[1]), sums_of(layers[2])});
}

TEST(LoadBalancing, collects_moe_layers_alone) {
  const RoutingTotals totals = totals_of(router_probabilities());
  EXPECT_EQ(totals.layers, kLayers);
  EXPECT_EQ(totals.experts(), kExperts);
  EXPECT_EQ(totals.expert_tokens.size(), static_cast<std::size_t>(kLayers * kExperts));
}

/// The mean of the layers' own losses.
at::Tensor formula_by_layer(const at::Tensor& probabilities) {
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const at::Tensor& layer : probabilities.chunk(kLayers, 0)) sum = sum + formula(layer);
  return sum / kLayers;
}

at::Tensor formula(const at::Tensor& probabilities, BalancingScope scope) {
  return scope == BalancingScope::kModel ? formula(probabilities) : formula_by_layer(probabilities);
}

class LoadBalancingOver : public testing::TestWithParam<BalancingScope> {};
INSTANTIATE_TEST_SUITE_P(Scopes, LoadBalancingOver,
                         testing::Values(BalancingScope::kModel, BalancingScope::kLayer));

TEST_P(LoadBalancingOver, loss_is_that_of_the_formula) {
  const at::Tensor probabilities = router_probabilities();
  EXPECT_NEAR(load_balancing_loss(totals_of(probabilities), kTokens, GetParam()),
              formula(probabilities, GetParam()).item<double>(), 1e-12);
}

TEST_P(LoadBalancingOver, gradient_of_every_tokens_probabilities_is_that_of_autograd) {
  constexpr double kCoefficient = 0.25;
  const at::Tensor probabilities = router_probabilities().requires_grad_();
  (formula(probabilities, GetParam()) * kCoefficient).backward();
  at::Tensor gradient = at::zeros({kLayers, kExperts}, at::kFloat);
  fill_probability_gradient(totals_of(probabilities.detach()), kTokens, kCoefficient, GetParam(), gradient);
  EXPECT_TRUE(probabilities.grad().to(at::kFloat).allclose(gradient.repeat_interleave(kTokens, 0), 1e-6, 0));
}

TEST(LoadBalancing, layers_that_each_use_other_experts_are_balanced_together_and_not_by_themselves) {
  const RoutingTotals split{
      2, {12, 12, 0, 0, 0, 0, 12, 12}, {6, 6, 0, 0, 0, 0, 6, 6}};  // 12 tokens, 2 of 4 experts
  EXPECT_DOUBLE_EQ(load_balancing_loss(split, 12, BalancingScope::kModel), 2.0);
  EXPECT_DOUBLE_EQ(load_balancing_loss(split, 12, BalancingScope::kLayer), 4.0);
}

TEST(LoadBalancing, is_k_when_all_experts_are_used_alike) {
  const RoutingTotals even{1, {6, 6, 6, 6}, {3, 3, 3, 3}};  // 12 tokens choose 2 of 4 experts
  for (const BalancingScope scope : {BalancingScope::kModel, BalancingScope::kLayer})
    EXPECT_DOUBLE_EQ(load_balancing_loss(even, 12, scope), 2.0);
}

TEST(LoadBalancing, z_loss_is_a_mean_over_tokens_and_layers_and_its_scale_twice_that_of_a_tokens_square) {
  const RoutingTotals totals = totals_of(router_probabilities());
  EXPECT_DOUBLE_EQ(z_loss(totals, kTokens), 3.0 / (kLayers * kTokens)) << "of a sum of 1 a layer";
  EXPECT_FLOAT_EQ(z_scale(0.5, kLayers, kTokens), 1.0F / (kLayers * kTokens));
  EXPECT_EQ(z_scale(0, kLayers, kTokens), 0);
}

TEST(LoadBalancing, is_zero_without_moe_layers) {
  const RoutingTotals none = collect({{}, {}});
  EXPECT_EQ(none.experts(), 0);
  for (const BalancingScope scope : {BalancingScope::kModel, BalancingScope::kLayer})
    EXPECT_EQ(load_balancing_loss(none, 10, scope), 0.0);
  EXPECT_EQ(z_loss(none, 10), 0.0);
  EXPECT_EQ(z_scale(0.5, 0, 10), 0);
}

}  // namespace
}  // namespace sluice
