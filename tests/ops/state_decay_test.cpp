#include "ops/state_decay.hpp"

#include "ops/cpu/scan_decays.hpp"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice::ops {
namespace {

TEST(StateDecay, is_the_exponential_down_to_2_to_the_minus_64_and_then_0) {
  const at::Tensor decays = state_decay(at::tensor({0.0F, -1.0F, -44.3F, -44.4F, -80.0F, -1000.0F}));
  const float* const found = decays.data_ptr<float>();
  EXPECT_EQ(found[0], 1.0F);
  EXPECT_FLOAT_EQ(found[1], std::exp(-1.0F));
  EXPECT_GT(found[2], 5e-20F);
  for (int i = 3; i < 6; ++i) EXPECT_EQ(found[i], 0.0F);
}

TEST(StateDecay, passes_no_gradient_where_it_is_0_and_keeps_NaN) {
  const at::Tensor sums = at::tensor({-1.0F, -50.0F, -1000.0F}).requires_grad_(true);
  state_decay(sums).sum().backward();
  const float* const gradient = sums.grad().data_ptr<float>();
  EXPECT_FLOAT_EQ(gradient[0], std::exp(-1.0F));
  EXPECT_EQ(gradient[1], 0.0F);
  EXPECT_EQ(gradient[2], 0.0F);
  EXPECT_TRUE(std::isnan(state_decay(at::tensor({std::numeric_limits<float>::quiet_NaN()})).item<float>()));
}

TEST(StateDecay, is_the_same_in_the_loops_of_a_scan) {
  for (const float sum : {0.0F, -0.5F, -44.3F, -44.4F, -90.0F, -1e30F}) {
    const auto expected = state_decay(at::tensor({sum})).item<float>();
    EXPECT_NEAR(cpu::state_decay(sum), expected, 1e-6F * expected) << sum;
  }
  EXPECT_TRUE(std::isnan(cpu::state_decay(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace sluice::ops
