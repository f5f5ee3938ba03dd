#include "train/document_losses.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sluice {
namespace {

constexpr TokenMark kIn = TokenMark::kInside;
constexpr TokenMark kNew = TokenMark::kBegins;
constexpr TokenMark kPad = TokenMark::kPadding;

using Marks = std::vector<TokenMark>;
using Losses = std::vector<double>;

TEST(DocumentLosses, a_document_goes_on_from_sequence_to_sequence) {
  DocumentLosses losses;
  const std::vector<DocumentLoss> first =
      losses.add(2, Marks{kNew, kIn, kIn, kIn, kIn, kNew}, Losses{1, 2, 4, 0});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].targets, 3);
  EXPECT_EQ(first[0].loss_sum, 7);
  EXPECT_TRUE(losses.add(2, Marks{kIn, kIn, kPad}, Losses{8, 0}).empty());
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
  const std::vector<DocumentLoss> ended = losses.add(3, Marks{kNew, kNew, kNew, kIn}, Losses{0, 0, 5});
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].targets, 0);
  EXPECT_TRUE(std::isnan(ended[0].loss()));
  EXPECT_TRUE(std::isnan(ended[1].perplexity()));
  EXPECT_EQ(losses.finish().front().loss(), 5);
}

TEST(DocumentLosses, rows_are_documents_of_their_own) {
  DocumentLosses losses;
  EXPECT_EQ(losses.add(1, Marks{kNew, kIn, kNew, kIn}, Losses{1, 2}).size(), 1U);
  EXPECT_EQ(losses.finish().front().loss(), 2);
}

TEST(DocumentLosses, of_nothing_is_nothing) { EXPECT_TRUE(DocumentLosses().finish().empty()); }

}  // namespace
}  // namespace sluice
