#include "encoding/token_rows.hpp"

#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace sluice {
namespace {

/// A row after its rounding to codes.
std::vector<float> rounded(const std::vector<float>& row) {
  const TokenRows rows(std::ssize(row));
  std::vector<std::byte> codes(static_cast<std::size_t>(rows.bytes()));
  rows.write(row.data(), codes.data());
  std::vector<float> out(row.size());
  rows.read(codes.data(), DType::kFloat32, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(TokenRows, have_a_scale_for_each_128_elements_and_whole_words) {
  const auto bytes = [](std::int64_t width) { return TokenRows(width).bytes(); };
  EXPECT_EQ(bytes(1), 4 + 4);
  EXPECT_EQ(bytes(128), 4 + 128);
  EXPECT_EQ(bytes(129), 8 + 132);
  EXPECT_EQ(bytes(2048), 16 * 4 + 2048);
}

TEST(TokenRows, are_multiples_of_a_127th_of_a_blocks_largest_magnitude) {
  for (const std::size_t width : {1, 3, 127, 128, 129, 260}) {
    std::vector<float> row(width);
    for (std::size_t i = 0; i < width; ++i)
      row[i] = std::sin(static_cast<float>(i + 1)) * static_cast<float>(1 + i / 128);
    const std::vector<float> found = rounded(row);
    for (std::size_t begin = 0; begin < width; begin += 128) {
      const std::size_t end = std::min(width, begin + 128);
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(row[i]));
      for (std::size_t i = begin; i < end; ++i) {
        const float code = std::nearbyint(row[i] * (127 * (1 / largest)));
        ASSERT_EQ(found[i], bfloat16_value(bfloat16_bits(code * (largest / 127)))) << "element " << i;
      }
    }
  }
}

TEST(TokenRows, of_zeros_stay_zeros_and_a_block_with_an_infinity_becomes_nan) {
  std::vector<float> row(256, 0.0F);
  EXPECT_EQ(rounded(row), row);
  row[200] = std::numeric_limits<float>::infinity();
  const std::vector<float> found = rounded(row);
  EXPECT_EQ(std::ranges::count(found, 0.0F), 128);
  EXPECT_TRUE(std::isnan(found[128]) && std::isnan(found[255]));
}

}  // namespace
}  // namespace sluice
