#include "data/batch.hpp"

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr TokenMark kIn = TokenMark::kInside;
constexpr TokenMark kNew = TokenMark::kBegins;
constexpr TokenMark kPad = TokenMark::kPadding;

Batch three_rows() {
  return {3, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {kNew, kIn, kNew, kIn, kIn, kIn, kIn, kIn, kPad}, 4};
}

TEST(Batch, every_token_but_a_first_one_and_padding_is_a_target) {
  EXPECT_EQ(count_targets(three_rows()), 4);
  EXPECT_EQ(count_targets({.sequences = 3, .length = 2}), 6) << "without marks";
}

TEST(Batch, padding_is_counted_among_the_inputs) {
  EXPECT_EQ(count_padding(three_rows()), 0) << "the last column has targets alone";
  EXPECT_EQ(count_padding({1, 3, {1, 0, 0, 0}, {kNew, kPad, kPad, kPad}}), 2);
  EXPECT_EQ(count_padding({.sequences = 3, .length = 2}), 0) << "without marks";
}

}  // namespace
}  // namespace sluice
