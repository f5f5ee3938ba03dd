#include "ops/linear.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

at::Tensor linear_formula(const Tensors& in, const Tensors& w) { return at::mm(in[0], w[0].t()); }
at::Tensor linear_operation(const Tensors& in, const Parameters& w) { return linear(in[0], w[0]); }

TEST(Linear, matches_its_formula) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches(linear_operation, linear_formula, {numbers({37, 48}, dtype)},
                   {parameter(numbers({40, 48}, dtype, 2))});
}

TEST(Linear, takes_an_input_that_is_not_contiguous) {
  const at::Tensor x = numbers({48, 37}).t();
  const Parameter w{numbers({40, 48}, at::kFloat, 2), {}};
  EXPECT_TRUE(linear(x, w).equal(linear(x.contiguous(), w)));
}

TEST(Linear, runs_again_after_the_weight_moved_to_other_memory) {
  at::Tensor storage = numbers({40, 48});
  const Parameter w{storage.view({40, 48}), at::zeros({40, 48})};
  const at::Tensor x = numbers({5, 48}, at::kFloat, 2).requires_grad_();
  const at::Tensor y = linear(x, w);
  const at::Tensor elsewhere = storage.clone();
  storage.fill_(std::nan(""));
  w.value.storage().set_data_ptr(c10::DataPtr(elsewhere.data_ptr(), at::kCPU));
  y.sum().backward();
  expect_close(x.grad(), elsewhere.sum(0, true).expand({5, 48}));
}

TEST(Linear, for_its_graph_alone_gives_the_gradients_of_one_for_its_output) {
  std::vector<Tensors> grads;
  for (const Purpose purpose : {Purpose::kOutput, Purpose::kGraph}) {
    const Parameter w = parameter(numbers({40, 48}, at::kFloat, 2));
    const at::Tensor x = numbers({5, 48}).requires_grad_();
    const at::Tensor y = linear(x, w, purpose);
    EXPECT_EQ(y.count_nonzero().item<std::int64_t>(), purpose == Purpose::kOutput ? 5 * 40 : 0);
    y.backward(numbers({5, 40}, at::kFloat, 3));
    grads.push_back({x.grad(), w.grad});
  }
  EXPECT_TRUE(grads[0][0].equal(grads[1][0]));
  EXPECT_TRUE(grads[0][1].equal(grads[1][1]));
}

}  // namespace
}  // namespace sluice::ops
