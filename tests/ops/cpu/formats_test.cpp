#include "ops/cpu/formats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice::ops::cpu::optimizer {
namespace {

/// Bit patterns of finite numbers that do not round to infinity, with every upper half and the lower halves
/// where something changes.
std::vector<float> many_numbers() {
  std::vector<float> numbers;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower :
         {0U, 1U, 0x7fU, 0x80U, 0x1234U, 0x7fffU, 0x8000U, 0x8001U, 0xff7fU, 0xffffU}) {
      const std::uint32_t bits = upper << 16 | lower;
      if ((bits & 0x7fffffffU) < 0x7f7f8000U) numbers.push_back(std::bit_cast<float>(bits));
    }
  return numbers;
}

TEST(Master, of_16_more_bits_is_exact_but_for_ties_whose_upper_half_is_even) {
  const std::vector<float> numbers = many_numbers();
  const auto n = std::ssize(numbers);
  std::vector<std::uint16_t> weights(numbers.size());
  std::vector<std::int16_t> rest(numbers.size());
  std::vector<float> back(numbers.size());
  write_master32(numbers.data(), n, weights.data(), rest.data());
  read_master32(weights.data(), rest.data(), n, back.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(numbers[i]);
    const bool is_lost_tie = (bits & 0x1ffffU) == 0x8000U;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]), is_lost_tie ? bits - 1 : bits) << std::hex << bits;
    const std::uint32_t nearest = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    ASSERT_EQ(weights[i], nearest) << std::hex << bits;
  }
}

TEST(Master, of_8_more_bits_is_a_neighbour_of_its_number_and_the_weight_nearest_to_it) {
  const std::vector<float> numbers = many_numbers();
  const auto n = std::ssize(numbers);
  std::vector<std::uint16_t> weights(numbers.size());
  std::vector<std::int8_t> rest(numbers.size());
  std::vector<std::uint32_t> draws(numbers.size());
  std::vector<float> back(numbers.size());
  draw(3, 0, n, draws.data());
  write_master24(numbers.data(), draws.data(), n, weights.data(), rest.data());
  read_master24(weights.data(), rest.data(), n, back.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(numbers[i]), found = std::bit_cast<std::uint32_t>(back[i]);
    ASSERT_EQ(found & 0xffU, 0U);
    ASSERT_TRUE(found == (bits & ~0xffU) || found == (bits & ~0xffU) + 0x100U)
        << std::hex << bits << " " << found;
    ASSERT_LE(std::abs(static_cast<std::int32_t>(found - (std::uint32_t{weights[i]} << 16))), 0x8000)
        << std::hex << bits;
  }
}

TEST(Draws, depend_on_key_and_element_alone) {
  constexpr std::int64_t kBegin = (std::int64_t{1} << 32) - 300;
  std::vector<std::uint32_t> whole(1000), part(200), other(1000);
  draw(9, kBegin, 1000, whole.data());
  draw(9, kBegin + 250, 200, part.data());
  draw(10, kBegin, 1000, other.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 250));
  const auto equal =
      std::inner_product(whole.begin(), whole.end(), other.begin(), 0, std::plus<>(), std::equal_to<>());
  EXPECT_LE(equal, 2);
}

TEST(Draws, have_halves_with_the_mean_and_the_spread_of_uniform_numbers) {
  std::vector<std::uint32_t> draws(1 << 18);
  for (const std::uint64_t key : {1ULL, 2ULL, 77777ULL}) {
    draw(key, 0, std::ssize(draws), draws.data());
    for (const int shift : {0, 16}) {
      double sum = 0, squares = 0, next = 0;
      double before = 0;
      for (const std::uint32_t value : draws) {
        const double u = ((value >> shift) & 0xffffU) / 65536.0 - 0.5;
        sum += u;
        squares += u * u;
        next += u * std::exchange(before, u);
      }
      const auto n = static_cast<double>(draws.size());
      EXPECT_NEAR(sum / n, 0, 3e-3);
      EXPECT_NEAR(squares / n * 12, 1, 1e-2);
      EXPECT_NEAR(next / n * 12, 0, 1e-2);  // neighbours do not go together
    }
  }
}

/// Numbers of both signs over seven decades, and zeros.
std::vector<float> moments() {
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i)
    values.push_back(
        i % 50 == 0 ? 0.0F : std::pow(10.0F, static_cast<float>(i % 71) / 10 - 7) * (i % 2 ? 1.0F : -1.0F));
  return values;
}

TEST(FirstCodes, keep_each_blocks_largest_and_are_within_half_a_step) {
  const std::vector<float> values = moments();
  const auto n = std::ssize(values);
  std::vector<std::int8_t> codes(values.size());
  std::vector<float> scales(values.size() / kStateBlock + 1), back(values.size());
  write_first_codes(values.data(), n, codes.data(), scales.data());
  read_first_codes(codes.data(), scales.data(), n, back.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[i / kStateBlock], x = std::abs(values[i]) / scale;
    ASSERT_LE(x, 1);
    ASSERT_TRUE(x != 1 || back[i] == values[i]) << i;
    // y = 2x / (1 + x) is kept to 1/254, and dx = (1 + x)^2 / 2 dy.
    ASSERT_NEAR(back[i] / scale, values[i] / scale, (1 + x) * (1 + x) / 2 / 254 * 1.02) << i;
    ASSERT_TRUE(values[i] != 0 || back[i] == 0) << i;
  }
}

TEST(RootCodes, are_zero_for_zero_alone_and_within_half_a_step_above_it) {
  std::vector<float> values = moments();
  for (float& value : values) value = std::abs(value);
  const auto n = std::ssize(values);
  std::vector<std::uint8_t> codes(values.size());
  std::vector<float> scales(values.size() / kStateBlock + 1), back(values.size());
  write_root_codes(values.data(), n, codes.data(), scales.data());
  read_root_codes(codes.data(), scales.data(), n, back.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float step = scales[i / kStateBlock] / 255;
    ASSERT_EQ(codes[i] == 0, values[i] == 0) << i;
    ASSERT_NEAR(back[i], std::max(values[i], values[i] > 0 ? step : 0), step * 0.51F) << i;
  }
}

TEST(Codes, of_a_block_of_zeros_are_zeros) {
  const std::vector<float> zeros(kStateBlock);
  std::vector<std::int8_t> first(kStateBlock, 1);
  std::vector<std::uint8_t> second(kStateBlock, 1);
  float scale = 1;
  write_first_codes(zeros.data(), kStateBlock, first.data(), &scale);
  EXPECT_EQ(scale, 0);
  write_root_codes(zeros.data(), kStateBlock, second.data(), &scale);
  EXPECT_EQ(scale, 0);
  EXPECT_EQ(std::ranges::count(first, 0), kStateBlock);
  EXPECT_EQ(std::ranges::count(second, 0), kStateBlock);
}

}  // namespace
}  // namespace sluice::ops::cpu::optimizer
