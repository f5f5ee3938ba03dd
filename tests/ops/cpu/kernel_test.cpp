#include "ops/cpu/kernel.hpp"

#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::ops::cpu {
namespace {

TEST(Exponential, is_right_to_a_few_units_in_the_last_place) {
  for (double x = -87.3; x < 88.7; x += 0.0371) {
    const auto input = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(input));
    EXPECT_NEAR(kernel::exponential(input), expected, expected * 2.4e-7) << input;
  }
}

TEST(ExponentialBelow, is_right_to_a_few_units_in_the_last_place) {
  for (double x = -87.3; x <= 1e-3; x += 0.0371) {
    const auto input = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(input));
    EXPECT_NEAR(kernel::exponential_below(input), expected, expected * 2.4e-7) << input;
  }
  EXPECT_EQ(kernel::exponential_below(0.0F), 1.0F);
}

TEST(ExponentialBelow, is_next_to_nothing_beyond_the_range) {
  for (const float x : {-88.0F, -1e4F, -1e30F, -HUGE_VALF})
    EXPECT_NEAR(kernel::exponential_below(x), 0.0F, 1.2e-38F) << x;
  EXPECT_TRUE(std::isnan(kernel::exponential_below(std::nanf(""))));
}

TEST(Sigmoid, is_right_to_a_few_units_in_the_last_place) {
  for (double x = -87.3; x < 100; x += 0.0371) {
    const auto input = static_cast<float>(x);
    const double expected = 1 / (1 + std::exp(-static_cast<double>(input)));
    EXPECT_NEAR(kernel::sigmoid(input), expected, expected * 3.6e-7) << input;
  }
  EXPECT_EQ(kernel::sigmoid(-100.0F), 0.0F);
  EXPECT_EQ(kernel::sigmoid(1e30F), 1.0F);
  EXPECT_TRUE(std::isnan(kernel::sigmoid(std::nanf(""))));
}

TEST(Exponential, knows_the_ends_of_the_range) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kernel::exponential(0.0F), 1.0F);
  EXPECT_EQ(kernel::exponential(-kInfinity), 0.0F);
  EXPECT_EQ(kernel::exponential(-1000.0F), 0.0F);
  EXPECT_EQ(kernel::exponential(kInfinity), kInfinity);
  EXPECT_EQ(kernel::exponential(1000.0F), kInfinity);
  EXPECT_TRUE(std::isnan(kernel::exponential(std::nanf(""))));
}

TEST(Store, rounds_to_bfloat16_as_base_does) {
  for (const float value :
       {0.0F, -0.0F, 1.0F, 1.00390625F, 1.01171875F, -3.3F, 1e-40F, 3.4e38F, HUGE_VALF, -HUGE_VALF}) {
    EXPECT_EQ(kernel::store<at::BFloat16>(value).x, bfloat16_bits(value)) << value;
    EXPECT_EQ(kernel::store_result<at::BFloat16>(value).x, bfloat16_bits(value)) << value;
  }
  EXPECT_TRUE(std::isnan(kernel::rounded<at::BFloat16>(std::nanf(""))));
  EXPECT_TRUE(std::isnan(kernel::load(kernel::store_result<at::BFloat16>(std::nanf("")))));
}

}  // namespace
}  // namespace sluice::ops::cpu
