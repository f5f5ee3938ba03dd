#include "base/checked.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace sluice {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST(CheckedCast, keeps_values_that_fit) {
  EXPECT_EQ(checked_cast<int>(std::int64_t{-5}), -5);
  EXPECT_EQ(checked_cast<std::uint64_t>(kMax), static_cast<std::uint64_t>(kMax));
}

TEST(CheckedCast, throws_for_values_that_do_not) {
  EXPECT_THROW(static_cast<void>(checked_cast<int>(std::int64_t{1} << 31)), Error);
  EXPECT_THROW(static_cast<void>(checked_cast<std::size_t>(-1)), Error);
  EXPECT_THROW(static_cast<void>(checked_cast<std::int64_t>(std::uint64_t{1} << 63)), Error);
}

TEST(CheckedArithmetic, gives_nothing_on_overflow) {
  EXPECT_EQ(multiply(std::int64_t{1} << 31, std::int64_t{1} << 31), std::int64_t{1} << 62);
  EXPECT_EQ(multiply(std::int64_t{1} << 32, std::int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(multiply(kMin, -1), std::nullopt);
  EXPECT_EQ(add(kMax - 1, 1), kMax);
  EXPECT_EQ(add(kMax, 1), std::nullopt);
  EXPECT_EQ(add(kMin, -1), std::nullopt);
}

}  // namespace
}  // namespace sluice
