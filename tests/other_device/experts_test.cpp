// Experts on the device, where one block of rows has several of them.
#include "ops/experts.hpp"
#include "other_device/on_device.hpp"
#include "support/no_exchange.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cstdint>
#include <vector>

namespace sluice::ops {
namespace {

using test::on_device;

constexpr std::int64_t kExperts = 3, kHidden = 8, kInner = 4, kTokens = 7;

/// Gradients of tokens, of their weights, and of gate and up and down of each expert; with `clears`, experts
/// come in turn, with one place for the gradients of all, and the matrices of each are zeros once it is
/// complete, as if an update had made them so.
std::vector<at::Tensor> gradients(bool clears) {
  at::manual_seed(1);
  GradientInitialized written[] = {GradientInitialized(kExperts), GradientInitialized(kExperts)};
  const auto weight = [&](at::IntArrayRef shape, GradientInitialized& of) {
    of.set_all(Written::kNo);
    const at::Tensor grad = on_device(at::zeros({clears ? 1 : kExperts, shape[1], shape[2]}));
    return Weight{{on_device(at::randn(shape)), grad.expand(shape), &of}};
  };
  ExpertParameters parameters{weight({kExperts, 2 * kInner, kHidden}, written[0]),
                              weight({kExperts, kHidden, kInner}, written[1])};
  const Parameter &gate_up = parameters.gate_up.base, &down = parameters.down.base;
  std::vector<at::Tensor> of_experts;
  const ExpertCompletion complete = [&](std::int64_t expert) {
    for (const Parameter* of : {&gate_up, &down}) {
      of_experts.push_back(of->grad[expert].clone());
      if (clears) of->value[expert].zero_();
    }
  };
  if (clears) parameters.completion = &complete;
  const at::Tensor x = on_device(at::randn({kTokens, kHidden})).requires_grad_(true);
  const at::Tensor weights = on_device(at::rand({kTokens, 2})).requires_grad_(true);
  const at::Tensor first = at::arange(kTokens).remainder(kExperts);
  const at::Tensor chosen = on_device(at::stack({first, (first + 1).remainder(kExperts)}, 1));
  test::NoExchange all_here;
  const at::Tensor out = experts(x, parameters, {chosen, weights, {}}, all_here);
  std::vector<at::Tensor> all =
      torch::autograd::grad({out}, {x, weights}, {on_device(at::randn({kTokens, kHidden}))});
  for (std::int64_t expert = 0; !clears && expert < kExperts; ++expert) complete(expert);
  all.insert(all.end(), of_experts.begin(), of_experts.end());
  return all;
}

TEST(OtherDeviceExperts, in_turn_may_be_updated_as_soon_as_they_are_complete) {
  const std::vector<at::Tensor> expected = gradients(false), found = gradients(true);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NE(expected[i].cpu().count_nonzero().item<std::int64_t>(), 0) << i;
    EXPECT_TRUE(found[i].cpu().equal(expected[i].cpu())) << i;
  }
}

}  // namespace
}  // namespace sluice::ops
