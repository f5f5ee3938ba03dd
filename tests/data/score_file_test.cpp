#include "data/score_file.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <vector>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

ScoreKey key_of(std::int64_t documents = 3, bool has_tokens = true) {
  return {.tokens_digest = "t",
          .model_digest = "m",
          .adapter_digest = "",
          .structure_hash = "s",
          .long_documents = "cut",
          .vocab_size = 10,
          .sequence_length = 4,
          .batch_sequences = 1,
          .pack_window = 8,
          .documents = documents,
          .tokens = 9,
          .has_tokens = has_tokens};
}

const float kNone = std::nanf("");

TEST(ScoreFile, has_what_was_written_by_document_and_by_place) {
  const TemporaryDirectory directory;
  ScoreWriter writer(directory / "scores.h5", key_of());
  EXPECT_EQ(writer.sequences_done(), 0);
  writer.write(2, {.log_prob = -3.5, .targets = 2, .greedy = 1}, {5, 3}, std::vector<float>{kNone, -1, -2.5});
  writer.write(0, {.log_prob = 0, .targets = 0, .greedy = 0}, {0, 1}, std::vector<float>{kNone});
  writer.commit(1);
  writer.finish();
  const ScoreFile file = ScoreFile::open(directory / "scores.h5");
  EXPECT_EQ(file.key().tokens_digest, "t");
  EXPECT_EQ(file.key().sequence_length, 4);
  EXPECT_EQ(file.document(2).log_prob, -3.5);
  EXPECT_EQ(file.document(2).targets, 2);
  EXPECT_EQ(file.document(2).greedy, 1);
  EXPECT_EQ(file.document(1).targets, -1) << "left out";
  EXPECT_TRUE(std::isnan(file.document(1).log_prob));
  EXPECT_THAT(file.tokens({5, 3}), testing::ElementsAre(testing::NanSensitiveFloatEq(kNone), -1, -2.5));
  EXPECT_TRUE(std::isnan(file.tokens({8, 1}).front()));
}

TEST(ScoreFile, totals_are_of_the_documents_that_were_scored) {
  const TemporaryDirectory directory;
  ScoreWriter writer(directory / "scores.h5", key_of());
  writer.write(2, {.log_prob = -3.5, .targets = 2, .greedy = 1}, {5, 3}, std::vector<float>{kNone, -1, -2.5});
  writer.write(0, {.log_prob = -4, .targets = 4, .greedy = 2}, {0, 5},
               std::vector<float>{kNone, -1, -1, -1, -1});
  const auto [total, documents] = writer.totals();
  EXPECT_EQ(documents, 2) << "one is left out";
  EXPECT_EQ(total.log_prob, -7.5);
  EXPECT_EQ(total.targets, 6);
  EXPECT_EQ(total.greedy, 3);
}

ScoreKey key_with(const char* distribution) {
  ScoreKey key = key_of();
  key.distribution = distribution;
  key.distribution_tokens = 2;
  key.temperature = 1.5;
  return key;
}

TEST(ScoreFile, has_the_distributions_in_the_form_in_which_they_are_learnt) {
  const TemporaryDirectory directory;
  const float half = std::log(0.5F), quarter = std::log(0.25F);
  ScoreWriter top(directory / "top.h5", key_with("top"));
  top.write({5, 2}, std::vector<std::int64_t>{-1, 4},
            {2, {-1, -1, 7, 0}, {kNone, kNone, half, quarter}, {kNone, quarter}});
  top.finish();
  const ScoreFile file = ScoreFile::open(directory / "top.h5");
  EXPECT_EQ(file.key().temperature, 1.5);
  EXPECT_THAT(file.scored_tokens({4, 3}), testing::ElementsAre(-1, -1, 4));
  const TeacherRows rows = file.distributions({4, 3}, 10);
  EXPECT_THAT(rows.ids, testing::ElementsAre(-1, -1, -1, -1, 7, 0));
  EXPECT_THAT(rows.weights,
              testing::Pointwise(testing::FloatEq(), std::vector<float>{0, 0, 0, 0, 0.5, 0.25}));
  EXPECT_THAT(rows.rest, testing::Pointwise(testing::FloatEq(), std::vector<float>{0, 0, 0.25}));
  expect_error(ExitCode::kBadData, {"token 6", "7 tokens"}, [&] { return file.distributions({4, 3}, 7); });
  ScoreWriter drawn(directory / "drawn.h5", key_with("sampled"));
  drawn.write({5, 2}, std::vector<std::int64_t>{3, 4}, {2, {3, -1, 7, 8}, {2, 0, 1, 1}, {}});
  drawn.finish();
  const TeacherRows counted = ScoreFile::open(directory / "drawn.h5").distributions({5, 2}, 10);
  EXPECT_THAT(counted.weights, testing::ElementsAre(1, 0, 0.5, 0.5));
  EXPECT_THAT(counted.rest, testing::ElementsAre(0, 0));
}

TEST(ScoreFile, refuses_numbers_that_are_no_distribution) {
  const TemporaryDirectory directory;
  ScoreWriter writer(directory / "top.h5", key_with("top"));
  writer.write({5, 2}, std::vector<std::int64_t>{3, 4}, {2, {3, 4, 7, 0}, {kNone, -1, -1, -1}, {-1, -1}});
  writer.finish();
  const ScoreFile file = ScoreFile::open(directory / "top.h5");
  expect_error(ExitCode::kBadData, {"top.h5", "token 5"}, [&] { return file.distributions({5, 1}, 10); });
  expect_error(ExitCode::kBadData, {"top.h5", "token 6"}, [&] { return file.distributions({6, 1}, 10); });
}

TEST(ScoreFile, is_gone_on_with_behind_what_was_committed) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "scores.h5", copy = directory / "copy.h5";
  ScoreWriter writer(path, key_of());
  writer.write(0, {.log_prob = -1, .targets = 1, .greedy = 1}, {0, 2}, std::vector<float>{kNone, -1});
  writer.commit(1);
  writer.write(1, {.log_prob = -7, .targets = 1, .greedy = 1}, {2, 2}, std::vector<float>{kNone, -7});
  std::filesystem::copy_file(path, copy);  // what a kill leaves
  expect_error(ExitCode::kBadData, {"not complete"}, [&] { static_cast<void>(ScoreFile::open(copy)); });
  ScoreWriter again(copy, key_of());
  EXPECT_EQ(again.sequences_done(), 1);
  EXPECT_FALSE(again.is_complete());
  again.write(1, {.log_prob = -2, .targets = 1, .greedy = 0}, {2, 2}, std::vector<float>{kNone, -2});
  again.commit(2);
  again.finish();
  EXPECT_TRUE(ScoreWriter(copy, key_of()).is_complete());
  const ScoreFile file = ScoreFile::open(copy);
  EXPECT_EQ(file.document(0).log_prob, -1);
  EXPECT_EQ(file.document(1).log_prob, -2);
  EXPECT_EQ(file.tokens({3, 1}).front(), -2);
}

TEST(ScoreFile, of_something_else_is_refused) {
  const TemporaryDirectory directory;
  ScoreWriter(directory / "scores.h5", key_of()).finish();
  const auto begin = [&](const ScoreKey& key) {
    static_cast<void>(ScoreWriter(directory / "scores.h5", key));
  };
  ScoreKey other = key_of();
  other.model_digest = "n";
  expect_error(ExitCode::kBadConfig, {"model_digest", "'m'", "'n'"}, [&] { begin(other); });
  other = key_of();
  other.sequence_length = 5;
  expect_error(ExitCode::kBadConfig, {"sequence_length", "4", "5"}, [&] { begin(other); });
  expect_error(ExitCode::kBadConfig, {"score.tokens"}, [&] { begin(key_of(3, /*has_tokens=*/false)); });
  hdf5::File::create(directory / "other.h5").close();
  expect_error(ExitCode::kBadData, {"no file of scores"},
               [&] { static_cast<void>(ScoreFile::open(directory / "other.h5")); });
}

TEST(ScoreFile, with_numbers_that_are_no_log_probabilities_is_refused) {
  const TemporaryDirectory directory;
  ScoreWriter writer(directory / "scores.h5", key_of(2, /*has_tokens=*/false));
  writer.write(0, {.log_prob = std::nan(""), .targets = 3, .greedy = 0}, {0, 4}, {});
  writer.write(1, {.log_prob = 1.5, .targets = 3, .greedy = 0}, {4, 4}, {});
  writer.finish();
  const ScoreFile file = ScoreFile::open(directory / "scores.h5");
  for (const std::int64_t document : {0, 1})
    expect_error(ExitCode::kBadData, {"document " + std::to_string(document), "at most 0"},
                 [&] { static_cast<void>(file.document(document)); });
  expect_error(ExitCode::kBadData, {"score.tokens"}, [&] { static_cast<void>(file.tokens({0, 2})); });
}

}  // namespace
}  // namespace sluice
