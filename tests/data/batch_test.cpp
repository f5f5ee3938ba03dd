#include "data/batch.hpp"

#include <gmock/gmock.h>

namespace sluice {
namespace {

using testing::ElementsAre;

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

TEST(Batch, is_shared_row_by_row_with_its_marks) {
  const Batch second = share_of(three_rows(), 2, 1);
  EXPECT_EQ(second.sequences, 1);
  EXPECT_THAT(second.ids, ElementsAre(7, 8, 9));
  EXPECT_THAT(second.marks, ElementsAre(kIn, kIn, kPad));
  EXPECT_EQ(second.global_targets, 4);
  EXPECT_EQ(share_of(three_rows(), 4, 3).sequences, 0);
}

}  // namespace
}  // namespace sluice
