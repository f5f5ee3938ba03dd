#include "train/micro_batch.hpp"

#include "ops/loss.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace sluice {
namespace {

constexpr TokenMark kIn = TokenMark::kInside;
constexpr TokenMark kNew = TokenMark::kBegins;

at::Tensor row(std::initializer_list<std::int64_t> values) {
  return at::tensor(std::vector<std::int64_t>(values), at::kLong).unsqueeze(0);
}

TEST(MicroBatch, inputs_are_all_but_the_last_token_and_targets_all_but_the_first) {
  const std::vector<MicroBatch> pieces = split_batch({3, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, 2, at::kCPU);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].inputs.size(0), 2);
  EXPECT_TRUE(pieces[1].inputs.equal(row({7, 8})));
  EXPECT_TRUE(pieces[1].targets.equal(row({8, 9})));
  EXPECT_FALSE(pieces[1].documents.packed());
  EXPECT_TRUE(split_batch({0, 2}, 2, at::kCPU).empty());
}

TEST(MicroBatch, a_token_has_no_target_in_the_next_document) {
  const std::vector<MicroBatch> pieces =
      split_batch({1, 4, {1, 2, 3, 4, 5}, {kNew, kIn, kNew, kIn, TokenMark::kPadding}}, 1, at::kCPU);
  EXPECT_TRUE(pieces[0].targets.equal(row({2, ops::kNoTarget, 4, ops::kNoTarget})));
  EXPECT_TRUE(pieces[0].documents.first.equal(row({0, 0, 2, 2})));
}

TEST(MicroBatch, padding_is_alone_and_does_not_count) {
  Batch batch{2,
              3,
              {1, 2, 0, 0, 3, 4, 5, 0},
              {kNew, kIn, TokenMark::kPadding, TokenMark::kPadding, kNew, kIn, kIn, TokenMark::kPadding}};
  batch.global_padding = count_padding(batch);
  EXPECT_EQ(batch.global_padding, 1) << "of the inputs";
  const std::vector<MicroBatch> pieces = split_batch(batch, 1, at::kCPU);
  EXPECT_TRUE(pieces[0].documents.first.equal(row({0, 0, 2})));
  EXPECT_TRUE(pieces[0].counted.equal(row({1, 1, 0}).flatten().to(at::kBool)));
  EXPECT_TRUE(pieces[1].counted.all().item<bool>());
  batch.global_padding = 0;
  EXPECT_FALSE(split_batch(batch, 1, at::kCPU)[0].counted.defined()) << "all do";
}

TEST(MicroBatch, a_masked_token_is_no_target_and_stays_in_its_document) {
  Batch batch{1, 4, {1, 2, 3, 4, 5}, {kNew, TokenMark::kMasked, kIn, TokenMark::kMasked, kIn}};
  const std::vector<MicroBatch> pieces = split_batch(batch, 1, at::kCPU);
  EXPECT_TRUE(pieces[0].targets.equal(row({ops::kNoTarget, 3, ops::kNoTarget, 5})));
  EXPECT_TRUE(pieces[0].documents.first.equal(row({0, 0, 0, 0})));
  batch.separates_documents = false;
  EXPECT_FALSE(split_batch(batch, 1, at::kCPU)[0].documents.packed());
}

TEST(MicroBatch, prompts_of_chosen_answers_may_be_targets_too) {
  constexpr TokenMark kMasked = TokenMark::kMasked;
  const std::vector<TokenMark> marks{kNew, kMasked, kIn, kNew, kMasked, kIn};
  Batch batch{2, 5, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, marks};
  batch.marks.insert(batch.marks.end(), marks.begin(), marks.end());
  batch.pairs = {{.sequence = 1, .chosen = {3, 5}, .rejected = {0, 2}}};
  for (const std::int64_t sequences : {1, 2}) {
    at::Tensor masked, learnt;
    for (const MicroBatch& piece : split_batch(batch, sequences, at::kCPU)) masked = piece.targets;
    for (const MicroBatch& piece : split_batch(batch, sequences, at::kCPU, ChosenPrompts::kLearnt))
      learnt = piece.targets;
    EXPECT_TRUE(masked.narrow(0, sequences - 1, 1)
                    .equal(row({ops::kNoTarget, 3, ops::kNoTarget, ops::kNoTarget, 6})));
    EXPECT_TRUE(learnt.narrow(0, sequences - 1, 1).equal(row({ops::kNoTarget, 3, ops::kNoTarget, 5, 6})));
  }
}

}  // namespace
}  // namespace sluice
