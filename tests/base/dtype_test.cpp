#include "base/dtype.hpp"

#include "base/error.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace sluice {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint16_t narrow(float value, DType to) {
  std::uint16_t bits = 0;
  convert_elements(&value, DType::kFloat32, &bits, to, 1);
  return bits;
}

float widen(std::uint16_t bits, DType from) {
  float value = 0;
  convert_elements(&bits, from, &value, DType::kFloat32, 1);
  return value;
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// IEEE 754 binary16 by its definition.
float half_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return fraction ? std::numeric_limits<float>::quiet_NaN() : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

/// Numbers around the middle of each pair of positive neighbours go to the nearest, the middle itself to the
/// even one.
void expect_nearest_even(DType to, std::uint16_t infinity) {
  for (std::uint16_t low = 0; low + 1 < infinity; ++low) {
    const std::uint16_t high = static_cast<std::uint16_t>(low + 1);
    const double exact = (static_cast<double>(widen(low, to)) + static_cast<double>(widen(high, to))) / 2;
    const float middle = static_cast<float>(exact);
    if (static_cast<double>(middle) != exact) continue;  // below the smallest float32: no such input exists
    ASSERT_EQ(narrow(middle, to), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f), to), low) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity), to), high) << low;
    ASSERT_EQ(narrow(-middle, to), 0x8000 | (low % 2 == 0 ? low : high)) << low;
  }
}

TEST(DType, names_go_both_ways) {
  for (int i = 0; i <= static_cast<int>(DType::kFloat8E5M2); ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("BF16"), std::nullopt);
  EXPECT_EQ(dtype_from_safetensors("bfloat16"), std::nullopt);
}

TEST(DType, sizes_are_those_of_the_names) {
  EXPECT_EQ(size_of(DType::kFloat32), 4);
  EXPECT_EQ(size_of(DType::kBFloat16), 2);
  EXPECT_EQ(size_of(DType::kInt64), 8);
  EXPECT_EQ(size_of(DType::kFloat8E4M3), 1);
}

TEST(Convert, widens_every_half_exactly) {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float expected = half_by_definition(bits);
    const float value = widen(bits, DType::kFloat16);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(value)) << i;
    else
      ASSERT_EQ(bits_of(value), bits_of(expected)) << i;
  }
}

TEST(Convert, brings_every_16_bit_number_back) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const float value = widen(bits, dtype);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(widen(narrow(value, dtype), dtype))) << i;
      else
        ASSERT_EQ(narrow(value, dtype), bits);
    }
}

TEST(Convert, rounds_to_nearest_even_between_all_bfloat16_neighbours) {
  expect_nearest_even(DType::kBFloat16, 0x7f80);
}

TEST(Convert, rounds_to_nearest_even_between_all_half_neighbours) {
  expect_nearest_even(DType::kFloat16, 0x7c00);
}

TEST(Convert, overflows_to_infinity_where_rounding_does) {
  EXPECT_EQ(narrow(65519.996f, DType::kFloat16), 0x7bff);
  EXPECT_EQ(narrow(65520.0f, DType::kFloat16), 0x7c00);
  EXPECT_EQ(narrow(-1e10f, DType::kFloat16), 0xfc00);
  EXPECT_EQ(narrow(std::bit_cast<float>(0x7f7f7fffu), DType::kBFloat16), 0x7f7f);
  EXPECT_EQ(narrow(std::numeric_limits<float>::max(), DType::kBFloat16), 0x7f80);
}

TEST(Convert, keeps_infinities_and_signed_zeros) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    EXPECT_EQ(widen(narrow(kInfinity, dtype), dtype), kInfinity);
    EXPECT_EQ(widen(narrow(-kInfinity, dtype), dtype), -kInfinity);
    EXPECT_EQ(narrow(-0.0f, dtype), 0x8000);
    EXPECT_EQ(narrow(std::numeric_limits<float>::denorm_min(), DType::kFloat16), 0);
  }
}

TEST(Convert, keeps_nan_whose_payload_lies_in_the_lost_bits) {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u})
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
      EXPECT_TRUE(std::isnan(widen(narrow(std::bit_cast<float>(bits), dtype), dtype))) << bits;
}

TEST(Convert, goes_between_the_16_bit_types_through_float32) {
  const std::vector<float> values{0.0f, 1.0f, -2.5f, 0.333f, 1e-6f, 65504.0f};
  for (const float value : values) {
    const std::uint16_t half = narrow(value, DType::kFloat16);
    std::uint16_t brain = 0;
    convert_elements(&half, DType::kFloat16, &brain, DType::kBFloat16, 1);
    EXPECT_EQ(brain, bfloat16_bits(half_by_definition(half)));
    std::uint16_t back = 0;
    convert_elements(&brain, DType::kBFloat16, &back, DType::kFloat16, 1);
    EXPECT_EQ(back, narrow(bfloat16_value(brain), DType::kFloat16));
  }
}

TEST(Convert, reads_sources_of_any_alignment) {
  const std::vector<float> values{1.5f, -3.0f, 1e20f};
  std::vector<std::byte> shifted(values.size() * sizeof(float) + 1);
  std::memcpy(shifted.data() + 1, values.data(), values.size() * sizeof(float));
  std::vector<std::uint16_t> out(values.size());
  convert_elements(shifted.data() + 1, DType::kFloat32, out.data(), DType::kBFloat16, 3);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(out[i], bfloat16_bits(values[i]));
}

TEST(CountNonFinite, finds_infinities_and_nans_of_every_float_type) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{1, nan, -kInfinity, 0, std::numeric_limits<float>::max(), kInfinity, -nan};
  EXPECT_EQ(count_non_finite(values.data(), DType::kFloat32, 7), 4);
  EXPECT_EQ(count_non_finite(values.data(), DType::kFloat32, 1), 0);
  const std::vector<std::uint16_t> brains{0x7f80, 0xff80, 0x7fc1, 0x7f7f, 0xff7f};
  EXPECT_EQ(count_non_finite(brains.data(), DType::kBFloat16, 5), 3);
  const std::vector<std::uint16_t> halves{0x7c00, 0xfe01, 0x7bff};
  EXPECT_EQ(count_non_finite(halves.data(), DType::kFloat16, 3), 2);
  const std::vector<double> doubles{std::numeric_limits<double>::infinity(), 1e308};
  EXPECT_EQ(count_non_finite(doubles.data(), DType::kFloat64, 2), 1);
  const std::vector<std::uint8_t> bytes{0x7f, 0xff, 0x7c, 0x7b};
  EXPECT_EQ(count_non_finite(bytes.data(), DType::kFloat8E4M3, 4), 2);
  EXPECT_EQ(count_non_finite(bytes.data(), DType::kFloat8E5M2, 4), 3);
  EXPECT_EQ(count_non_finite(bytes.data(), DType::kUInt8, 4), 0);
}

TEST(Convert, copies_equal_types_and_refuses_integers) {
  const float value = 0.1f;
  float copy = 0;
  convert_elements(&value, DType::kFloat32, &copy, DType::kFloat32, 1);
  EXPECT_EQ(copy, value);
  EXPECT_FALSE(is_convertible(DType::kInt32, DType::kFloat32));
  EXPECT_THROW(convert_elements(&value, DType::kInt32, &copy, DType::kFloat32, 1), Error);
}

}  // namespace
}  // namespace sluice
