#include "encoding/dequantise.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

/// float8_e4m3fn by its definition.
float float8_by_definition(unsigned code) {
  const unsigned exponent = code >> 3 & 15, fraction = code & 7;
  const float sign = (code & 0x80) != 0 ? -1.0F : 1.0F;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -9);
  return sign * std::ldexp(static_cast<float>(8 + fraction), static_cast<int>(exponent) - 10);
}

/// float4_e2m1 by its definition.
float float4_by_definition(unsigned code) {
  const unsigned exponent = code >> 1 & 3, fraction = code & 1;
  const float sign = (code & 8) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * static_cast<float>(fraction) / 2;
  return sign * std::ldexp(static_cast<float>(2 + fraction), static_cast<int>(exponent) - 2);
}

/// NF4 as published with QLoRA.
constexpr float kNormalFloat4[] = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

float code_of(const Encoding& encoding, const Bytes& codes, std::int64_t element) {
  const auto i = static_cast<std::size_t>(element);
  if (encoding.codes == Codes::kInt8) return static_cast<float>(static_cast<std::int8_t>(codes[i]));
  if (encoding.codes == Codes::kFloat8E4M3) return float8_by_definition(std::to_integer<unsigned>(codes[i]));
  const int word_byte = std::to_integer<int>(codes[i / 2]);
  const int code = word_byte >> 4 * static_cast<int>(i % 2) & 15;
  if (encoding.codes == Codes::kNormalFloat4) return kNormalFloat4[code];
  if (encoding.codes == Codes::kFloat4E2M1) return float4_by_definition(static_cast<unsigned>(code));
  return static_cast<float>(code - 8);
}

float scale_of(const Encoding& encoding, const Bytes& scales, std::int64_t element) {
  const std::int64_t row = element / encoding.columns, column = element % encoding.columns;
  const std::int64_t grid_rows = (encoding.rows + encoding.block_rows - 1) / encoding.block_rows;
  const std::int64_t grid_columns = (encoding.columns + encoding.block_columns - 1) / encoding.block_columns;
  const std::int64_t grid_row = row / encoding.rows * grid_rows + row % encoding.rows / encoding.block_rows;
  const auto at = static_cast<std::size_t>(grid_row * grid_columns + column / encoding.block_columns);
  if (encoding.scale_type == DType::kFloat8E4M3)
    return float8_by_definition(std::to_integer<unsigned>(scales[at])) * encoding.tensor_scale.factor /
           encoding.tensor_scale.divisor;
  switch (encoding.scale_type) {
    case DType::kFloat32: {
      float value = 0;
      std::memcpy(&value, scales.data() + 4 * at, 4);
      return value;
    }
    case DType::kBFloat16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, scales.data() + 2 * at, 2);
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    default: {
      const int byte = std::to_integer<int>(scales[at]);
      return byte == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, byte - 127);
    }
  }
}

/// All elements of a tensor by the formula, one by one.
std::vector<std::uint16_t> by_formula(const Encoding& encoding, const Bytes& codes, const Bytes& scales,
                                      std::int64_t count) {
  std::vector<std::uint16_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const float product = code_of(encoding, codes, i) * scale_of(encoding, scales, i);
    out.push_back(std::isnan(product) ? 0x7fc0 : bfloat16_bits(product));
  }
  return out;
}

std::vector<VectorLevel> levels() {
  std::vector<VectorLevel> all;
  for (const VectorLevel level : {VectorLevel::kPlain, VectorLevel::kAvx2, VectorLevel::kAvx512})
    if (level <= best_vector_level()) all.push_back(level);
  return all;
}

/// Elements [begin, end) at every level, in both types, from memory without alignment.
void expect_range(const Encoding& encoding, const Bytes& codes, const Bytes& scales,
                  const std::vector<std::uint16_t>& expected, Range part) {
  const std::int64_t first_code = part.begin * bits_of(encoding.codes) / 8;
  Bytes moved(static_cast<std::size_t>(encoding.code_bytes(part.count())) + 1);
  std::memcpy(moved.data() + 1, codes.data() + first_code, moved.size() - 1);
  const Range needed = encoding.scales_of(part);
  Bytes own_scales(static_cast<std::size_t>(encoding.scale_bytes(needed)) + 1);
  std::memcpy(own_scales.data() + 1, scales.data() + encoding.scale_bytes({0, needed.begin}),
              own_scales.size() - 1);
  const auto count = static_cast<std::size_t>(part.count());
  for (const VectorLevel level : levels()) {
    std::vector<std::uint16_t> narrow(count);
    dequantise(encoding, part, moved.data() + 1, own_scales.data() + 1, DType::kBFloat16,
               reinterpret_cast<std::byte*>(narrow.data()), level);
    std::vector<float> wide(count);
    dequantise(encoding, part, moved.data() + 1, own_scales.data() + 1, DType::kFloat32,
               reinterpret_cast<std::byte*>(wide.data()), level);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t bits = expected[static_cast<std::size_t>(part.begin) + i];
      ASSERT_EQ(narrow[i], bits) << "element " << i << " of " << part.begin << ", level "
                                 << static_cast<int>(level);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), static_cast<std::uint32_t>(bits) << 16)
          << "element " << i;
    }
  }
}

class Dequantise : public testing::Test {
 protected:
  Bytes random_bytes(std::int64_t count) {
    Bytes bytes(static_cast<std::size_t>(count));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    return bytes;
  }
  Bytes random_scales(DType type, std::int64_t count) {
    if (size_of(type) == 1) return random_bytes(count);
    std::normal_distribution<float> exponent(-8, 8);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = std::exp2(exponent(random_));
    Bytes bytes(static_cast<std::size_t>(count * size_of(type)));
    convert_elements(values.data(), DType::kFloat32, bytes.data(), type, count);
    return bytes;
  }
  /// Random codes and scales: the whole tensor, and ranges of it.
  void expect_formula(const Encoding& encoding, std::int64_t matrices = 1) {
    const std::int64_t count = matrices * encoding.rows * encoding.columns;
    const Bytes codes = random_bytes(encoding.code_bytes(count));
    const Bytes scales =
        random_scales(encoding.scale_type, matrices * encoding.grid_rows() * encoding.grid_columns());
    const auto expected = by_formula(encoding, codes, scales, count);
    expect_range(encoding, codes, scales, expected, {0, count});
    const std::int64_t step = bits_of(encoding.codes) == 8 ? 1 : 2;
    for (int i = 0; i < 20; ++i) {
      std::int64_t begin = static_cast<std::int64_t>(random_()) % count / step * step;
      std::int64_t end = begin + static_cast<std::int64_t>(random_()) % (count - begin) / step * step;
      expect_range(encoding, codes, scales, expected, {begin, end});
    }
  }
  std::mt19937 random_{5};
};

Encoding float8(std::int64_t rows, std::int64_t columns, std::int64_t block_rows, std::int64_t block_columns,
                DType scale_type = DType::kFloat32) {
  return {.codes = Codes::kFloat8E4M3,
          .scale_type = scale_type,
          .rows = rows,
          .columns = columns,
          .block_rows = block_rows,
          .block_columns = block_columns};
}

Encoding int4(std::int64_t rows, std::int64_t columns, std::int64_t group,
              DType scale_type = DType::kBFloat16) {
  Encoding encoding = float8(rows, columns, 1, group, scale_type);
  encoding.codes = Codes::kInt4;
  return encoding;
}

Encoding mxfp4(std::int64_t rows, std::int64_t columns, DType scale_type = DType::kUInt8) {
  Encoding encoding = float8(rows, columns, 1, 32, scale_type);
  encoding.codes = Codes::kFloat4E2M1;
  return encoding;
}

Encoding nvfp4(std::int64_t rows, std::int64_t columns, TensorScale tensor_scale) {
  Encoding encoding = mxfp4(rows, columns, DType::kFloat8E4M3);
  encoding.block_columns = 16;
  encoding.tensor_scale = tensor_scale;
  return encoding;
}

Encoding int8(std::int64_t rows, std::int64_t columns) {
  Encoding encoding = float8(rows, columns, 1, columns);
  encoding.codes = Codes::kInt8;
  return encoding;
}

Encoding nf4(std::int64_t rows, std::int64_t columns) {
  Encoding encoding = float8(rows, columns, 1, 64);
  encoding.codes = Codes::kNormalFloat4;
  return encoding;
}

/// Every code under each of these scales, a row of its own.
TEST_F(Dequantise, every_code_under_extreme_scales_is_its_product_rounded_once) {
  const std::vector<float> values{1.0F,
                                  -1.0F,
                                  0.0137F,
                                  0.0F,
                                  0x1p-149F,
                                  0x1.8p-133F,
                                  0x1p-127F,
                                  1e-36F,
                                  0x1p121F,
                                  0x1p127F,
                                  3.4e38F,
                                  1e30F,
                                  0x1.010101p0F,
                                  0x1.8181p-7F,
                                  std::numeric_limits<float>::infinity(),
                                  std::numeric_limits<float>::quiet_NaN()};
  Bytes scales(values.size() * sizeof(float));
  std::memcpy(scales.data(), values.data(), scales.size());
  const std::int64_t rows = std::ssize(values);
  for (const Encoding& encoding :
       {float8(rows, 256, 1, 256), int8(rows, 256), int4(rows, 16, 16, DType::kFloat32),
        int4(rows, 32, 32, DType::kFloat32), nf4(rows, 16), nf4(rows, 64)}) {
    const bool is_byte = bits_of(encoding.codes) == 8;
    Bytes codes;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < encoding.code_bytes(encoding.columns); ++i)
        codes.push_back(static_cast<std::byte>(is_byte ? i : 2 * i % 16 | (2 * i + 1) % 16 << 4));
    const std::int64_t count = rows * encoding.columns;
    expect_range(encoding, codes, scales, by_formula(encoding, codes, scales, count), {0, count});
  }
}

TEST_F(Dequantise, every_code_of_mxfp4_under_every_scale_is_its_product_rounded_once) {
  const Encoding encoding = mxfp4(256, 32);
  Bytes codes, scales;
  for (int scale = 0; scale < 256; ++scale) {
    scales.push_back(static_cast<std::byte>(scale));
    for (int i = 0; i < 16; ++i) codes.push_back(static_cast<std::byte>(i | (15 - i) << 4));
  }
  const auto expected = by_formula(encoding, codes, scales, 256 * 32);
  const auto of = [&](std::int64_t scale, std::int64_t code) {
    return expected[static_cast<std::size_t>(scale * 32 + 2 * code)];
  };
  EXPECT_EQ(of(127, 7), 0x40c0);   // 6
  EXPECT_EQ(of(127, 8), 0x8000);   // -0
  EXPECT_EQ(of(0, 1), 0x0020);     // 2^-128, a subnormal number
  EXPECT_EQ(of(254, 2), 0x7f00);   // 2^127
  EXPECT_EQ(of(254, 15), 0xff80);  // infinity: no number is that large
  EXPECT_EQ(of(255, 0), 0x7fc0);   // not a number
  expect_range(encoding, codes, scales, expected, {0, 256 * 32});
}

TEST_F(Dequantise, blocks_at_the_edges_are_smaller) {
  expect_formula(float8(576, 300, 128, 128));  // a grid of 5 x 3
  expect_formula(float8(50, 72, 16, 20));
  expect_formula(float8(7, 3, 128, 128));
}

TEST_F(Dequantise, a_row_a_tensor_and_a_single_row_have_scales_of_their_own) {
  expect_formula(float8(37, 65, 1, 65));
  expect_formula(float8(37, 65, 37, 65));
  expect_formula(float8(1, 129, 128, 128));
  expect_formula(float8(1, 1, 1, 1));
  expect_formula(int8(37, 65));
}

TEST_F(Dequantise, matrices_of_a_tensor_have_a_grid_each) {
  expect_formula(float8(40, 50, 16, 16), 3);
  expect_formula(int4(6, 64, 32), 3);
  expect_formula(mxfp4(6, 64), 3);
  expect_formula(int8(6, 48), 3);
  expect_formula(nf4(6, 128), 3);
}

TEST_F(Dequantise, scales_may_be_of_any_of_these_types) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat8E8M0, DType::kUInt8}) {
    expect_formula(float8(70, 300, 16, 1, type));
    expect_formula(int4(9, 96, 32, type));
    expect_formula(mxfp4(9, 96, type));
  }
}

TEST_F(Dequantise, scales_of_nvfp4_are_divided_by_or_multiplied_with_that_of_the_tensor) {
  expect_formula(nvfp4(9, 96, {1, 12345.678F}));
  expect_formula(nvfp4(9, 2880, {1 / 2688.0F, 1}), 2);
}

TEST_F(Dequantise, groups_of_a_row_have_a_scale_each) {
  expect_formula(int4(13, 96, 32));
  expect_formula(mxfp4(13, 2880));
  expect_formula(nf4(13, 2880));
  expect_formula(nf4(7, 200));  // the last group of a row is shorter
  expect_formula(int4(5, 24, 8));
  expect_formula(int4(5, 2048, 2048));
  expect_formula(int4(3, 8192, 16));  // more groups than are widened at a time
}

TEST_F(Dequantise, a_block_of_zeros_stays_zero) {
  const Encoding encoding = float8(4, 4, 2, 4);
  Bytes codes(16);
  codes[9] = std::byte{0x38};  // 1
  const std::vector<float> values{0.0F, 2.0F};
  Bytes scales(8);
  std::memcpy(scales.data(), values.data(), 8);
  std::vector<float> out(16, -1);
  dequantise(encoding, {0, 16}, codes.data(), scales.data(), DType::kFloat32,
             reinterpret_cast<std::byte*>(out.data()));
  std::vector<float> expected(16, 0);
  expected[9] = 2;
  EXPECT_EQ(out, expected);
}

TEST(ReadScales, float16_is_read_exactly) {
  const std::vector<std::uint16_t> halves{0x3c00, 0x0001, 0x7bff};
  std::vector<float> out(3);
  read_scales({.scale_type = DType::kFloat16}, reinterpret_cast<const std::byte*>(halves.data()), 3,
              out.data());
  EXPECT_EQ(out, (std::vector<float>{1, 0x1p-24F, 65504}));
}

}  // namespace
}  // namespace sluice
