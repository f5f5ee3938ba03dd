#include "encoding/quantise.hpp"

#include "encoding/dequantise.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace sluice {
namespace {

struct Quantised {
  std::vector<std::byte> codes, scales;
};

Quantised quantise(const Encoding& encoding, const std::vector<float>& values) {
  Quantised out;
  out.codes.resize(static_cast<std::size_t>(encoding.code_bytes(std::ssize(values))));
  out.scales.resize(
      static_cast<std::size_t>(encoding.scale_bytes(encoding.scales_of({0, std::ssize(values)}))));
  quantise_rows(encoding, std::ssize(values) / encoding.columns, values.data(), out.codes.data(),
                out.scales.data());
  return out;
}

Encoding rows_of(Codes codes, std::int64_t columns, std::int64_t group) {
  const DType scales = codes == Codes::kFloat8E4M3
                           ? DType::kFloat32
                           : (codes == Codes::kInt4 ? DType::kBFloat16 : DType::kUInt8);
  return {.codes = codes,
          .scale_type = scales,
          .rows = 1,
          .columns = columns,
          .block_rows = 1,
          .block_columns = group};
}

/// The finite numbers that codes stand for, by the code.
std::vector<float> numbers_of_codes(Codes codes) {
  const std::int64_t count = 1 << bits_of(codes);
  Encoding encoding = rows_of(codes, count, count);
  encoding.scale_type = DType::kFloat32;
  const float one = 1;
  std::vector<std::byte> all;
  for (std::int64_t code = 0; code < count; ++code)
    if (bits_of(codes) == 8)
      all.push_back(static_cast<std::byte>(code));
    else if (code % 2 == 0)
      all.push_back(static_cast<std::byte>(code | (code + 1) << 4));
  std::vector<float> numbers(static_cast<std::size_t>(count));
  dequantise(encoding, {0, count}, all.data(), reinterpret_cast<const std::byte*>(&one), DType::kFloat32,
             reinterpret_cast<std::byte*>(numbers.data()));
  return numbers;
}

unsigned code_at(Codes codes, const std::vector<std::byte>& bytes, std::size_t i) {
  if (bits_of(codes) == 8) return std::to_integer<unsigned>(bytes[i]);
  return std::to_integer<unsigned>(bytes[i / 2]) >> 4 * (i % 2) & 15U;
}

/// Whether no number is nearer to `value` than that of `code`, and none with an even code is as near as one
/// with an odd code.
bool is_nearest(const std::vector<float>& numbers, unsigned code, float value) {
  const auto distance = [&](float number) { return std::fabs(static_cast<double>(number) - value); };
  for (unsigned other = 0; other < numbers.size(); ++other) {
    if (std::isnan(numbers[other]) || numbers[other] == numbers[code]) continue;
    if (distance(numbers[other]) < distance(numbers[code])) return false;
    if (distance(numbers[other]) == distance(numbers[code]) && code % 2 == 1) return false;
  }
  return true;
}

constexpr Codes kAll[] = {Codes::kFloat8E4M3, Codes::kInt4, Codes::kFloat4E2M1};

TEST(QuantiseRows, takes_the_nearest_code_and_the_even_one_of_two) {
  std::mt19937 random(3);
  for (const Codes codes : kAll) {
    const std::vector<float> numbers = numbers_of_codes(codes);
    std::vector<float> values;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (std::isnan(numbers[i])) continue;
      const float next = i + 1 < numbers.size() && !std::isnan(numbers[i + 1]) ? numbers[i + 1] : 0;
      values.insert(values.end(), {numbers[i], (numbers[i] + next) / 2});  // and what lies in the middle
    }
    const float largest = codes == Codes::kInt4 ? 7.5F : codes == Codes::kFloat8E4M3 ? 448.0F : 6.0F;
    std::erase_if(values, [&](float value) { return std::fabs(value) > largest; });
    std::normal_distribution<float> normal(0, 2);
    while (values.size() % 32 != 0 || values.size() < 1024)
      values.push_back(std::clamp(normal(random), -6.0F, 6.0F));
    values.front() = largest;  // so that the scale is 1
    const Encoding encoding = rows_of(codes, std::ssize(values), std::ssize(values));
    const Quantised found = quantise(encoding, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const unsigned code = code_at(codes, found.codes, i);
      EXPECT_TRUE(is_nearest(numbers, code, values[i]))
          << encoding.text() << ": code " << code << " of " << values[i];
    }
  }
}

TEST(QuantiseRows, takes_scales_of_nvfp4_under_that_of_the_tensor) {
  Encoding encoding = rows_of(Codes::kFloat4E2M1, 16, 16);
  encoding.scale_type = DType::kFloat8E4M3;
  const std::vector<float> numbers = numbers_of_codes(Codes::kFloat4E2M1);
  std::vector<float> values{0.06F};
  for (int i = 1; i < 16; ++i) values.push_back(0.004F * static_cast<float>(i % 2 == 0 ? i : -i));
  for (const TensorScale& of_tensor : {TensorScale{1, 16384}, TensorScale{1 / 16384.0F, 1}}) {
    encoding.tensor_scale = of_tensor;
    const Quantised found = quantise(encoding, values);
    EXPECT_EQ(found.scales.front(), std::byte{0x72});  // 160: of 163.84, the nearest of three bits
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(is_nearest(numbers, code_at(encoding.codes, found.codes, i), values[i] * 16384 / 160)) << i;
  }
}

TEST(QuantiseRows, gives_each_block_the_scale_of_its_largest_magnitude) {
  const Encoding encoding{.codes = Codes::kFloat8E4M3,
                          .scale_type = DType::kFloat32,
                          .rows = 3,
                          .columns = 5,
                          .block_rows = 2,
                          .block_columns = 3};
  const Quantised found = quantise(encoding, {1, -2, 0, 4, 3,    //
                                              0, 0, -8, 0, -16,  //
                                              0, 0, 0, 1, 0});
  std::vector<float> scales(4);
  std::memcpy(scales.data(), found.scales.data(), sizeof(float) * scales.size());
  EXPECT_EQ(scales, (std::vector<float>{1 / (448.0F / 8), 1 / (448.0F / 16), 1, 1.0F / 448}));
  EXPECT_EQ(code_at(encoding.codes, found.codes, 7), 0xfeU);   // -448
  EXPECT_EQ(code_at(encoding.codes, found.codes, 13), 0x7eU);  // 448
  EXPECT_EQ(code_at(encoding.codes, found.codes, 10), 0U);
}

/// Rows and groups of an odd number of codes begin and end within a byte.
TEST(QuantiseRows, takes_the_nearest_codes_of_groups_that_share_a_byte) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 2);
  for (const Codes codes : {Codes::kInt4, Codes::kFloat4E2M1})
    for (const std::int64_t group : {1, 3, 33, 64, 601}) {
      const std::vector<float> numbers = numbers_of_codes(codes);
      Encoding encoding = rows_of(codes, 601, group);
      encoding.rows = 6;
      std::vector<float> values(6 * 601);
      for (float& value : values) value = normal(random);
      const Quantised found = quantise(encoding, values);
      std::vector<float> scales(found.scales.size() / static_cast<std::size_t>(size_of(encoding.scale_type)));
      read_scales(encoding, found.scales.data(), std::ssize(scales), scales.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const float value =
            values[i] / scales[static_cast<std::size_t>(encoding.scales_of({at, at + 1}).begin)];
        EXPECT_TRUE(is_nearest(numbers, code_at(codes, found.codes, i), value))
            << encoding.text() << ": element " << i << ", " << value;
      }
    }
}

/// By the formula: 448 / largest, whose reciprocal is stored.
TEST(Quantise, makes_float8_of_products_and_stores_the_reciprocal) {
  const Encoding encoding{.codes = Codes::kFloat8E4M3,
                          .scale_type = DType::kFloat32,
                          .scale_count = 2,
                          .rows = 2,
                          .columns = 3,
                          .block_rows = 1,
                          .block_columns = 3};
  const std::vector<float> values{0.3F, -0.1F, 0.7F, 1e-38F, 0, -1e-40F};
  const Quantised found = quantise(encoding, values);
  std::vector<float> scales(2);
  std::memcpy(scales.data(), found.scales.data(), sizeof(float) * scales.size());
  const float factor = 448.0F / 0.7F;
  EXPECT_EQ(scales, (std::vector<float>{1 / factor, 1}));
  const std::vector<float> numbers = numbers_of_codes(Codes::kFloat8E4M3);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(is_nearest(numbers, code_at(encoding.codes, found.codes, i), values[i] * factor)) << i;
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(numbers[code_at(encoding.codes, found.codes, i)], 0.0F) << i;
}

TEST(Quantise, takes_the_next_power_of_two_above_as_an_exponent) {
  for (const auto& [largest, exponent] :
       {std::pair(448.0F, 0), std::pair(448.5F, 1), std::pair(447.0F, 0), std::pair(1.0F, -8)}) {
    Encoding encoding = rows_of(Codes::kFloat8E4M3, 2, 2);
    encoding.scale_type = DType::kFloat8E8M0;
    const Quantised found = quantise(encoding, {largest, -largest});
    EXPECT_EQ(std::to_integer<int>(found.scales.front()), exponent + 127) << largest;
  }
}

TEST(Quantise, makes_the_same_of_a_tensor_in_parts) {
  Encoding encoding{.codes = Codes::kFloat8E4M3,
                    .scale_type = DType::kBFloat16,
                    .rows = 5,
                    .columns = 7,
                    .block_rows = 2,
                    .block_columns = 3};
  encoding.scale_count = 2 * encoding.grid_rows() * encoding.grid_columns();  // of two matrices
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(70);
  for (float& value : values) value = normal(random);
  std::vector<std::int64_t> whole(static_cast<std::size_t>(encoding.scale_count)), parts(whole.size());
  raise_magnitudes(encoding, {0, 70}, values.data(), whole.data());
  for (const Range part : {Range{33, 41}, Range{0, 33}, Range{41, 70}})
    raise_magnitudes(encoding, part, values.data() + part.begin, parts.data());
  EXPECT_EQ(parts, whole);
  std::vector<std::byte> codes(70), joined(70);
  quantise(encoding, {0, 70}, values.data(), whole.data(), codes.data());
  for (const Range part : {Range{0, 1}, Range{1, 50}, Range{50, 70}})
    quantise(encoding, part, values.data() + part.begin, whole.data(), joined.data() + part.begin);
  EXPECT_EQ(joined, codes);
}

TEST(Quantise, tells_magnitudes_that_no_number_has) {
  const Encoding encoding = rows_of(Codes::kFloat8E4M3, 2, 2);
  for (const float value : {NAN, -NAN, INFINITY, -INFINITY}) {
    const std::vector<float> values{1, value};
    std::int64_t largest = 0;
    raise_magnitudes(encoding, {0, 2}, values.data(), &largest);
    EXPECT_FALSE(is_finite_magnitude(largest)) << value;
  }
}

TEST(QuantiseRows, comes_back_within_half_a_step_of_its_scale) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<float> values(256);
  for (float& value : values) value = normal(random);
  for (const Codes codes : kAll) {
    const Encoding encoding = rows_of(codes, 256, 32);
    const Quantised found = quantise(encoding, values);
    std::vector<float> back(values.size());
    dequantise(encoding, {0, 256}, found.codes.data(), found.scales.data(), DType::kFloat32,
               reinterpret_cast<std::byte*>(back.data()));
    const float largest =
        std::fabs(std::ranges::max(values, {}, [](float value) { return std::fabs(value); }));
    const float step = codes == Codes::kFloat8E4M3 ? largest / 8 : largest / 2;
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(back[i], values[i], step / 2 * 1.1F) << encoding.text();
  }
}

}  // namespace
}  // namespace sluice
