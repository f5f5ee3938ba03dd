#include "encoding/encoding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sluice {
namespace {

TEST(Encoding, a_range_of_elements_needs_the_scales_that_its_elements_have) {
  const Encoding e{.rows = 10, .columns = 7, .block_rows = 4, .block_columns = 3};
  EXPECT_EQ(e.grid_rows(), 3);
  EXPECT_EQ(e.grid_columns(), 3);
  for (std::int64_t begin = 0; begin < 140; ++begin)
    for (std::int64_t end = begin + 1; end <= 140; ++end) {
      std::int64_t least = 1000, most = -1;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / 7;
        const std::int64_t scale = (row / 10 * 3 + row % 10 / 4) * 3 + i % 7 / 3;
        least = std::min(least, scale);
        most = std::max(most, scale);
      }
      const Range range = e.scales_of({begin, end});
      ASSERT_LE(range.begin, least);
      ASSERT_GE(range.end, most + 1);
      const bool one_row = begin / 7 == (end - 1) / 7;
      ASSERT_TRUE(!one_row || (range.begin == least && range.end == most + 1)) << begin << " to " << end;
    }
  EXPECT_EQ(e.scales_of({5, 5}).count(), 0);
}

TEST(Encoding, the_first_row_of_each_matrix_may_have_its_scales_in_another_tensor) {
  // Two matrices of 3 x 2 scales, 4 bytes each, whose first rows lie 40 bytes apart in another file.
  const Encoding e{.scale_file = 1,
                   .scale_begin = 100,
                   .scale_count = 12,
                   .rows = 6,
                   .columns = 8,
                   .block_rows = 2,
                   .block_columns = 4,
                   .shared = {2, 1000, 40}};
  EXPECT_EQ(e.own_scale_bytes(), 2 * 2 * 2 * 4);
  const auto bytes_of = [&](std::int64_t scale) {
    const std::int64_t matrix = scale / 6, row = scale % 6 / 2, column = scale % 2;
    return row == 0 ? std::pair(2, 1000 + matrix * 40 + column * 4)
                    : std::pair(1, 100 + ((matrix * 2 + row - 1) * 2 + column) * 4);
  };
  for (std::int64_t begin = 0; begin < 12; ++begin)
    for (std::int64_t end = begin + 1; end <= 12; ++end) {
      std::int64_t scale = begin;
      e.read_scales({begin, end}, [&](int file, std::int64_t offset, std::int64_t bytes) {
        for (std::int64_t byte = 0; byte < bytes; byte += 4)
          EXPECT_EQ(std::pair(file, offset + byte), bytes_of(scale++)) << begin << " to " << end;
      });
      EXPECT_EQ(scale, end);
    }
  EXPECT_EQ(encoding_from(numbers_of(e)), e);
}

TEST(Encoding, reads_keep_groups_whole_but_for_long_ones) {
  EXPECT_EQ((Encoding{.codes = Codes::kInt4, .block_columns = 32}.atom_elements()), 32);
  EXPECT_EQ((Encoding{.codes = Codes::kFloat4E2M1, .block_columns = 32}.atom_elements()), 32);
  EXPECT_EQ((Encoding{.codes = Codes::kInt4, .block_columns = 7168}.atom_elements()), 8);
  EXPECT_EQ((Encoding{.block_columns = 128}.atom_elements()), 1);
}

TEST(Encoding, says_what_it_is) {
  const auto text = [](std::int64_t block_rows, std::int64_t block_columns) {
    return Encoding{.rows = 64, .columns = 96, .block_rows = block_rows, .block_columns = block_columns}
        .text();
  };
  EXPECT_EQ(text(16, 32), "float8_e4m3fn in blocks of 16 x 32");
  EXPECT_EQ(text(1, 96), "float8_e4m3fn by row");
  EXPECT_EQ(text(64, 96), "float8_e4m3fn by tensor");
  EXPECT_EQ((Encoding{.codes = Codes::kInt4, .block_rows = 1, .block_columns = 32}.text()),
            "int4 in groups of 32");
  EXPECT_EQ((Encoding{.codes = Codes::kFloat4E2M1, .block_rows = 1, .block_columns = 32}.text()),
            "mxfp4 in groups of 32");
}

}  // namespace
}  // namespace sluice
