#include "ops/activation.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

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
