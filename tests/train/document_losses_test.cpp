#include "train/document_losses.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice {
namespace {

constexpr TokenMark kIn = TokenMark::kInside;
constexpr TokenMark kNew = TokenMark::kBegins;
constexpr TokenMark kPad = TokenMark::kPadding;

Batch batch_of(std::int64_t sequences, std::int64_t length, std::vector<TokenMark> marks) {
  Batch batch{sequences, length};
  batch.ids.resize(marks.size());
  batch.marks = std::move(marks);
  return batch;
}

TEST(DocumentLosses, a_document_goes_on_from_sequence_to_sequence) {
  DocumentLosses losses;
  const std::vector<DocumentLoss> first =
      losses.add(batch_of(2, 2, {kNew, kIn, kIn, kIn, kIn, kNew}), std::vector<double>{1, 2, 4, 0});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].targets, 3);
  EXPECT_EQ(first[0].loss_sum, 7);
  EXPECT_TRUE(losses.add(batch_of(1, 2, {kIn, kIn, kPad}), std::vector<double>{8, 0}).empty());
  const std::vector<DocumentLoss> last = losses.finish();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].targets, 1);
  EXPECT_EQ(last[0].loss(), 8);
  EXPECT_EQ(losses.documents(), 2);
  EXPECT_EQ(losses.total().targets, 4);
  EXPECT_DOUBLE_EQ(losses.total().perplexity(), std::exp(15.0 / 4));
}

TEST(DocumentLosses, a_document_of_one_token_has_no_loss) {
  DocumentLosses losses;
  const std::vector<DocumentLoss> ended =
      losses.add(batch_of(1, 3, {kNew, kNew, kNew, kIn}), std::vector<double>{0, 0, 5});
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].targets, 0);
  EXPECT_TRUE(std::isnan(ended[0].loss()));
  EXPECT_TRUE(std::isnan(ended[1].perplexity()));
  EXPECT_EQ(losses.finish().front().loss(), 5);
}

TEST(DocumentLosses, rows_are_documents_of_their_own) {
  DocumentLosses losses;
  EXPECT_EQ(losses.add(batch_of(2, 1, {kNew, kIn, kNew, kIn}), std::vector<double>{1, 2}).size(), 1U);
  EXPECT_EQ(losses.finish().front().loss(), 2);
}

TEST(DocumentLosses, of_nothing_is_nothing) { EXPECT_TRUE(DocumentLosses().finish().empty()); }

}  // namespace
}  // namespace sluice
