#include "ops/buffers/gradients.hpp"

#include "ops/op_check.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::ops {
namespace {

TEST(Clear, writes_zeros_to_its_elements_alone) {
  const at::Tensor x = at::ones({600'000});
  clear(x.data_ptr<float>() + 1, x.numel() - 2);
  EXPECT_EQ(x[0].item<float>(), 1.0F);
  EXPECT_EQ(x[-1].item<float>(), 1.0F);
  EXPECT_EQ(x.sum().item<float>(), 2.0F);
}

TEST(Add, adds_each_element_of_a_part_to_the_sum) {
  const at::Tensor sum = numbers({1001}), part = numbers({1001}, at::kFloat, 2);
  const at::Tensor expected = sum + part;
  add(part.data_ptr<float>(), sum.numel(), sum.data_ptr<float>());
  EXPECT_TRUE(sum.equal(expected));
}

TEST(SumOfSquares, is_exact_to_float64_rounding_for_any_number_of_threads) {
  const at::Tensor x = numbers({300000}) * 1e3;
  const double expected = x.to(at::kDouble).square().sum().item<double>();
  std::vector<double> sums;
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    sums.push_back(sum_of_squares(x.data_ptr<float>(), x.numel()));
  }
  EXPECT_NEAR(sums[0], expected, expected * 1e-13);
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
  EXPECT_EQ(sum_of_squares(nullptr, 0), 0.0);
}

TEST(SumOfSquares, reads_bfloat16) {
  const at::Tensor x = numbers({70000}, at::kBFloat16);
  EXPECT_NEAR(sum_of_squares(static_cast<const std::byte*>(x.data_ptr()), DType::kBFloat16, x.numel()),
              x.to(at::kDouble).square().sum().item<double>(), 1e-6);
}

TEST(RoundToBFloat16, is_that_of_torch) {
  const at::Tensor x = numbers({70000});
  at::Tensor rounded = at::empty({70000}, at::kBFloat16);
  round_to_bfloat16(x.data_ptr<float>(), x.numel(), static_cast<std::byte*>(rounded.data_ptr()));
  EXPECT_TRUE(rounded.equal(x.to(at::kBFloat16)));
}

}  // namespace
}  // namespace sluice::ops
