#include "base/round.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace sluice {
namespace {

TEST(Round, divides_up_only_what_leaves_a_rest) {
  EXPECT_EQ(divide_up(0, 8), 0);
  EXPECT_EQ(divide_up(8, 8), 1);
  EXPECT_EQ(divide_up(9, 8), 2);
}

TEST(Round, goes_up_to_the_next_multiple) {
  EXPECT_EQ(round_up<std::int64_t>(0, 32), 0);
  EXPECT_EQ(round_up<std::int64_t>(1, 32), 32);
  EXPECT_EQ(round_up<std::int64_t>(64, 32), 64);
  EXPECT_EQ(round_up<std::uint64_t>((std::uint64_t{1} << 40) + 1, 4096), (std::uint64_t{1} << 40) + 4096);
}

}  // namespace
}  // namespace sluice
