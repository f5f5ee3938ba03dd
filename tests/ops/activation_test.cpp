#include "ops/activation.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace sluice::ops {
namespace {

TEST(SwiGlu, matches_its_formula) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches([](const Tensors& in, const Parameters&) { return swiglu(in[0], in[1]); },
                   [](const Tensors& in, const Tensors&) { return at::silu(in[0]) * in[1]; },
                   {numbers({17, 33}, dtype) * 4, numbers({17, 33}, dtype, 2)}, {});
}

TEST(SwiGlu, matches_its_formula_with_gelu_by_tanh) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches(
        [](const Tensors& in, const Parameters&) {
          return swiglu(in[0], in[1], {.activation = Activation::kGeluTanh});
        },
        [](const Tensors& in, const Tensors&) { return at::gelu(in[0], "tanh") * in[1]; },
        {numbers({17, 33}, dtype) * 4, numbers({17, 33}, dtype, 2)}, {});
}

// Numbers that lie at a limit but for rounding have a gradient or none: none of these do.
TEST(SwiGlu, clamps_the_gate_and_up_or_the_silu_and_up) {
  for (const at::ScalarType dtype : kDTypes) {
    const Tensors inputs{numbers({17, 33}, dtype) * 4, numbers({17, 33}, dtype, 2) * 3};
    expect_matches(
        [](const Tensors& in, const Parameters&) {
          return swiglu(in[0], in[1], {1.1F, 1.7F});
        },
        [](const Tensors& in, const Tensors&) {
          const at::Tensor gate = in[0].clamp_max(1.1F);
          return (in[1].clamp(-1.1F, 1.1F) + 1) * gate * at::sigmoid(gate * 1.7F);
        },
        inputs, {});
    expect_matches(
        [](const Tensors& in, const Parameters&) {
          return swiglu(in[0], in[1], {.limit = 1.1F, .clamp = Clamp::kSilu});
        },
        [](const Tensors& in, const Tensors&) {
          return at::silu(in[0]).clamp_max(1.1F) * in[1].clamp(-1.1F, 1.1F);
        },
        inputs, {});
  }
}

/// Output and gradients of gate and up, of swiglu() with a limit of 2 on the silu.
Tensors with_limit_of_two(const std::vector<float>& gates, const std::vector<float>& ups) {
  const auto row = [](const std::vector<float>& numbers) {
    return at::tensor(numbers).view({1, -1}).requires_grad_();
  };
  const at::Tensor gate = row(gates), up = row(ups);
  const at::Tensor out = swiglu(gate, up, {.limit = 2, .clamp = Clamp::kSilu});
  out.sum().backward();
  return {out.detach(), gate.grad(), up.grad()};
}

TEST(SwiGlu, has_no_gradient_beyond_a_clamp_and_has_one_at_it) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // The silu of 100 is 100, and of 0 it is 0 with a slope of a half.
  const Tensors of = with_limit_of_two({100, kInfinity, 0, 0, 0, 0, 100}, {1, 1, 2, -2, 2.5F, -kInfinity, 3});
  EXPECT_TRUE(of[0].equal(at::tensor({2.0F, 2.0F, 0.0F, 0.0F, 0.0F, 0.0F, 4.0F}).view({1, 7}))) << of[0];
  EXPECT_TRUE(of[1].equal(at::tensor({0.0F, 0.0F, 1.0F, -1.0F, 1.0F, -1.0F, 0.0F}).view({1, 7}))) << of[1];
  EXPECT_TRUE(of[2].equal(at::tensor({2.0F, 2.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F}).view({1, 7}))) << of[2];
}

TEST(SwiGlu, keeps_what_is_not_a_number_through_a_clamp) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensors of = with_limit_of_two({kNan, 1, kNan}, {1, kNan, 5});
  EXPECT_TRUE(of[0].isnan().all().item<bool>()) << of[0];
  EXPECT_TRUE(of[1].isnan().all().item<bool>()) << of[1];
  EXPECT_TRUE(of[2].isnan().to(at::kInt).equal(at::tensor({1, 0, 0}, at::kInt).view({1, 3}))) << of[2];
}

TEST(SwiGlu, takes_halves_of_a_joint_matrix) {
  const at::Tensor joint = numbers({5, 24});
  const at::Tensor gate = joint.narrow(1, 0, 12);
  const at::Tensor up = joint.narrow(1, 12, 12);
  EXPECT_TRUE(swiglu(gate, up).equal(swiglu(gate.contiguous(), up.contiguous())));
}

TEST(SwiGlu, stays_finite_far_from_zero) {
  const at::Tensor gate = at::tensor({-1e4F, -100.0F, 100.0F, 1e4F}).view({1, 4}).requires_grad_();
  const at::Tensor y = swiglu(gate, at::ones({1, 4}));
  y.sum().backward();
  EXPECT_TRUE(y.detach().equal(at::tensor({0.0F, 0.0F, 100.0F, 1e4F}).view({1, 4})));
  EXPECT_TRUE(gate.grad().equal(at::tensor({0.0F, 0.0F, 1.0F, 1.0F}).view({1, 4})));
}

TEST(SquaredRelu, matches_its_formula) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches([](const Tensors& in, const Parameters&) { return squared_relu(in[0]); },
                   [](const Tensors& in, const Tensors&) { return at::relu(in[0]).square(); },
                   {numbers({17, 33}, dtype) * 4}, {});
}

TEST(SquaredRelu, has_no_gradient_where_it_is_zero) {
  const at::Tensor up = at::tensor({-1e4F, -1.0F, 0.0F, 3.0F}).view({1, 4}).requires_grad_();
  const at::Tensor y = squared_relu(up);
  y.sum().backward();
  EXPECT_TRUE(y.detach().equal(at::tensor({0.0F, 0.0F, 0.0F, 9.0F}).view({1, 4})));
  EXPECT_TRUE(up.grad().equal(at::tensor({0.0F, 0.0F, 0.0F, 6.0F}).view({1, 4})));
}

}  // namespace
}  // namespace sluice::ops
