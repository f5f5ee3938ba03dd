#include "data/packed_window.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

namespace sluice {

void PrintTo(const TokenRange& run, std::ostream* out) { *out << run.first << "+" << run.count; }

namespace {

using testing::ElementsAre;
using Sequences = std::vector<std::vector<TokenRange>>;

constexpr std::int64_t kInputs = 10;

/// Documents of these lengths, one after the other.
std::vector<TokenRange> documents(const std::vector<std::int64_t>& lengths) {
  std::vector<TokenRange> runs;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    runs.push_back({first, length});
    first += length;
  }
  return runs;
}

Sequences sequences(const PackedWindow& window) {
  Sequences all;
  for (std::int64_t i = 0; i < window.sequences(); ++i) all.push_back(window.sequence(i));
  return all;
}

PackedWindow packed(const std::vector<std::int64_t>& lengths, LongDocuments rule = LongDocuments::kSplit,
                    const RandomStream* shuffle = nullptr) {
  return {documents(lengths), {kInputs, rule}, shuffle};
}

TEST(PackedWindow, puts_documents_that_fit_together_into_a_sequence_whole) {
  EXPECT_THAT(sequences(packed({3, 4, 5, 6, 7})),
              ElementsAre(ElementsAre(TokenRange{0, 3}, TokenRange{18, 7}),
                          ElementsAre(TokenRange{3, 4}, TokenRange{12, 6}), ElementsAre(TokenRange{7, 5})));
}

TEST(PackedWindow, splits_a_long_document_so_that_each_token_but_the_first_is_a_target_once) {
  // Inputs 3..12, 13..22, each with the token after them as target; 23 to 27 are packed with the first
  // document.
  EXPECT_THAT(sequences(packed({3, 25})),
              ElementsAre(ElementsAre(TokenRange{0, 3}, TokenRange{23, 5}), ElementsAre(TokenRange{3, 11}),
                          ElementsAre(TokenRange{13, 11})));
  EXPECT_THAT(sequences(packed({21})),
              ElementsAre(ElementsAre(TokenRange{0, 11}), ElementsAre(TokenRange{10, 11})))
      << "the last token was a target already";
  EXPECT_THAT(sequences(packed({10})), ElementsAre(ElementsAre(TokenRange{0, 10})));
}

TEST(PackedWindow, cuts_or_leaves_out_long_documents) {
  EXPECT_THAT(sequences(packed({25, 3, 11}, LongDocuments::kCut)),
              ElementsAre(ElementsAre(TokenRange{25, 3}), ElementsAre(TokenRange{0, 11}),
                          ElementsAre(TokenRange{28, 11})));
  const PackedWindow left_out = packed({25, 3, 11, 10}, LongDocuments::kLeaveOut);
  EXPECT_THAT(sequences(left_out),
              ElementsAre(ElementsAre(TokenRange{25, 3}), ElementsAre(TokenRange{39, 10})));
  EXPECT_EQ(packed({25}, LongDocuments::kLeaveOut).sequences(), 0);
}

TEST(PackedWindow, counts_documents_and_inputs) {
  const auto counted = [](LongDocuments rule) { return packed({25, 3, 11, 10}, rule).counts(); };
  EXPECT_EQ(counted(LongDocuments::kSplit).documents, 4);
  EXPECT_EQ(counted(LongDocuments::kSplit).long_documents, 2);
  EXPECT_EQ(counted(LongDocuments::kSplit).inputs, 25 + 3 + 10 + 10);
  EXPECT_EQ(counted(LongDocuments::kCut).inputs, 10 + 3 + 10 + 10);
  EXPECT_EQ(counted(LongDocuments::kLeaveOut).inputs, 3 + 10);
}

TEST(PackedWindow, shuffles_its_sequences_and_loses_none) {
  const std::vector<std::int64_t> lengths(50, 6);
  const RandomStream shuffle(3, "window");
  Sequences in_order = sequences(packed(lengths));
  Sequences shuffled = sequences(packed(lengths, LongDocuments::kSplit, &shuffle));
  EXPECT_NE(shuffled, in_order);
  const auto first = [](const std::vector<TokenRange>& sequence) { return sequence.front().first; };
  std::ranges::sort(shuffled, {}, first);
  EXPECT_EQ(shuffled, in_order);
}

TEST(PackedWindow, names_every_run_that_its_sequences_read) {
  EXPECT_THAT(packed({3, 25, 4}).runs(),
              ElementsAre(TokenRange{0, 3}, TokenRange{23, 5}, TokenRange{28, 4}, TokenRange{3, 21}));
}

}  // namespace
}  // namespace sluice
