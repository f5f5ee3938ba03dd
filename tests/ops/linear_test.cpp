#include "ops/linear.hpp"

#include "op_check.hpp"

#include <gtest/gtest.h>

namespace sluice::ops {
namespace {

at::Tensor formula(const Tensors& in, const Tensors& w) { return at::mm(in[0], w[0].t()); }
at::Tensor operation(const Tensors& in, const Parameters& w) { return linear(in[0], w[0]); }

TEST(Linear, matches_its_formula) {
  for (const at::ScalarType dtype : kDTypes)
    expect_matches(operation, formula, {numbers({37, 48}, dtype)}, {parameter(numbers({40, 48}, dtype, 2))});
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

TEST(AddTransposedProduct, adds_large_products_block_by_block) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor a = numbers({2, 1050}, dtype);
    const at::Tensor b = numbers({2, 4100}, dtype, 2);
    const at::Tensor grad = at::ones({1050, 4100});
    add_transposed_product(grad, a, b);
    expect_close(grad, at::mm(a.t().to(at::kFloat), b.to(at::kFloat)) + 1, dtype == at::kFloat ? 1e-6 : 1e-2);
  }
}

TEST(AddTransposedProduct, leaves_the_gap_after_each_row_alone) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor buffer = at::full({6, 20}, 7.0F);
    add_transposed_product(buffer.narrow(1, 0, 16), numbers({3, 6}, dtype), numbers({3, 16}, dtype, 2));
    EXPECT_TRUE(buffer.narrow(1, 16, 4).eq(7.0F).all().item<bool>());
  }
}

}  // namespace
}  // namespace sluice::ops
