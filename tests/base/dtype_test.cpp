#include "base/dtype.hpp"

#include "base/error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
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
  if (exponent == 0x1f && fraction == 0) return sign * kInfinity;
  if (exponent == 0x1f)  // NaN keeps its sign and its fraction, and becomes a quiet one
    return std::bit_cast<float>(
        static_cast<std::uint32_t>((bits & 0x8000) << 16 | 0x7fc00000 | fraction << 13));
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
    if (static_cast<double>(middle) != exact) continue;  // no input lies below the smallest float32
    ASSERT_EQ(narrow(middle, to), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0f), to), low) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity), to), high) << low;
    ASSERT_EQ(narrow(-middle, to), 0x8000 | (low % 2 == 0 ? low : high)) << low;
  }
}

float widen_by_definition(std::uint16_t bits, DType from) {
  return from == DType::kBFloat16 ? std::bit_cast<float>(std::uint32_t{bits} << 16)
                                  : half_by_definition(bits);
}

/// The nearest number of 8 significant bits (bfloat16) or 11 (float16); the even one of two equally near
/// ones.
std::uint16_t narrow_by_definition(float value, DType to) {
  const bool is_brain = to == DType::kBFloat16;
  const int fraction_bits = is_brain ? 7 : 10;
  const int infinity = is_brain ? 0x7f80 : 0x7c00;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))  // a quiet one, in float16 with as much of its fraction as there is room for
    return static_cast<std::uint16_t>(is_brain ? 0x7fc0 : sign | 0x7e00 | (bits_of(value) >> 13 & 0x3ff));
  if (std::isinf(value) || value == 0) return static_cast<std::uint16_t>(sign | (value == 0 ? 0 : infinity));
  int exponent = 0;
  std::frexp(value, &exponent);
  const int least = is_brain ? -133 : -24;  // the exponent of the smallest subnormal
  const int unit = std::max(exponent - fraction_bits - 1, least);
  const double units = std::nearbyint(std::ldexp(std::abs(static_cast<double>(value)), -unit));
  // Fractions of all ones that are rounded up carry into the exponent.
  const int bits = ((unit - least) << fraction_bits) + static_cast<int>(units);
  return static_cast<std::uint16_t>(sign | std::min(bits, infinity));
}

TEST(DType, names_go_both_ways) {
  for (int i = 0; i <= static_cast<int>(DType::kFloat8E8M0); ++i) {
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
    ASSERT_EQ(bits_of(widen(bits, DType::kFloat16)), bits_of(half_by_definition(bits))) << i;
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

TEST(Convert, every_16_bit_pattern_in_one_call_gives_what_the_definition_gives) {
  std::vector<std::uint16_t> patterns(0x10000);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  for (const DType from : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<float> values(patterns.size());
    convert_elements(patterns.data(), from, values.data(), DType::kFloat32, std::ssize(patterns));
    const DType to = from == DType::kBFloat16 ? DType::kFloat16 : DType::kBFloat16;
    std::vector<std::uint16_t> narrowed(patterns.size());
    convert_elements(patterns.data(), from, narrowed.data(), to, std::ssize(patterns));
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const float expected = widen_by_definition(patterns[i], from);
      ASSERT_EQ(bits_of(values[i]), bits_of(expected)) << name_of(from) << " " << i;
      ASSERT_EQ(narrowed[i], narrow_by_definition(expected, to)) << name_of(from) << " " << i;
    }
  }
}

TEST(Convert, edges_and_random_float32_in_one_call_give_what_the_definition_gives) {
  std::vector<float> values;
  for (const std::uint32_t around :
       {0u, 0x00800000u, 0x33000000u, 0x33800000u, 0x387fe000u, 0x38800000u, 0x3f800000u, 0x477fe000u,
        0x477ff000u, 0x47800000u, 0x7f7f0000u, 0x7f7f8000u, 0x7f800000u, 0x7fc00000u})
    for (std::uint32_t step = 0; step < 9; ++step)
      for (const std::uint32_t sign : {0u, 0x80000000u})
        values.push_back(std::bit_cast<float>(((around + step - 4) & 0x7fffffffu) | sign));
  std::mt19937 engine(7);
  while (values.size() < 1 << 20)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
  for (const DType to : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<std::uint16_t> out(values.size());
    convert_elements(values.data(), DType::kFloat32, out.data(), to, std::ssize(values));
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(out[i], narrow_by_definition(values[i], to)) << name_of(to) << " " << bits_of(values[i]);
  }
}

TEST(Convert, writes_as_many_elements_as_asked_for) {
  const std::vector<std::uint16_t> ones(80, 0x3c00);  // 1 in float16
  for (std::int64_t count = 0; count < 75; ++count) {
    std::vector<std::uint16_t> out(ones.size(), 7);
    convert_elements(ones.data() + 1, DType::kFloat16, out.data() + 1, DType::kBFloat16, count);
    EXPECT_EQ(std::ranges::count(out, 0x3f80), count);
    EXPECT_EQ(out.front(), 7);
    EXPECT_EQ(std::ranges::count(out, 7), std::ssize(out) - count);
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

TEST(Convert, rounds_float64_to_float32_first) {
  const std::vector<double> wide{1 + 0x1p-8 + 0x1p-40, 0.1, -1e300, 0x1p-149, std::nan("")};
  std::vector<std::byte> moved(wide.size() * sizeof(double) + 1);
  std::memcpy(moved.data() + 1, wide.data(), moved.size() - 1);
  std::vector<std::uint16_t> brains(wide.size());
  convert_elements(moved.data() + 1, DType::kFloat64, brains.data(), DType::kBFloat16, std::ssize(wide));
  EXPECT_EQ(brains[0], 0x3f80);  // 1: a tie in float32, though not in float64
  for (std::size_t i = 0; i < wide.size(); ++i)
    EXPECT_EQ(brains[i], bfloat16_bits(static_cast<float>(wide[i]))) << wide[i];
  std::vector<double> back(wide.size());
  convert_elements(brains.data(), DType::kBFloat16, back.data(), DType::kFloat64, std::ssize(wide));
  for (std::size_t i = 0; i + 1 < wide.size(); ++i) EXPECT_EQ(back[i], bfloat16_value(brains[i]));
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
