#include "ops/buffers/token_rows.hpp"

#include "ops/op_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace sluice::ops {
namespace {

TEST(TakeRows, copies_the_rows_of_the_listed_tokens_in_their_order) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor x = numbers({5, 3}, dtype);
    EXPECT_TRUE(take_rows(x, {4, 0, 4}).equal(x.index_select(0, at::tensor({4, 0, 4}, at::kLong))));
  }
}

TEST(RoundRows, rounds_as_torch_does) {
  const at::Tensor sums = numbers({7, 9});
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor out = at::zeros({7, 9}, dtype);
    round_rows(sums, out);
    EXPECT_TRUE(out.equal(sums.to(dtype)));
  }
}

TEST(SumOfParts, adds_the_rows_of_each_token_in_float32) {
  for (const at::ScalarType dtype : kDTypes) {
    const at::Tensor rows = numbers({6, 4}, dtype);
    const at::Tensor wide = rows.to(at::kFloat);
    const at::Tensor listed = sum_of_parts(rows, {1, 0, 1, 1, 0, 0}, 3);
    const at::Tensor tokens = at::tensor({1, 0, 1, 1, 0, 0}, at::kLong);
    EXPECT_TRUE(listed.equal(at::zeros({3, 4}).index_add(0, tokens, wide).to(dtype)));
    const at::Tensor in_turn = sum_of_parts(rows, {}, 3);
    EXPECT_TRUE(in_turn.equal((wide.narrow(0, 0, 3) + wide.narrow(0, 3, 3)).to(dtype)));
  }
}

TEST(ListTokens, lists_a_token_once_for_each_list_that_it_chose_from) {
  const at::Tensor chosen = at::tensor({0, 1, 5, 3, 2, 4, 5, 4}, at::kInt).view({4, 2});
  const TokenLists lists = list_tokens(chosen, std::array{0U, 0U, 1U, 1U, 3U, 3U}, 4);
  EXPECT_THAT(lists.counts, testing::ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(lists.tokens, testing::ElementsAre(0, 1, 2, 1, 2, 3));
}

}  // namespace
}  // namespace sluice::ops
