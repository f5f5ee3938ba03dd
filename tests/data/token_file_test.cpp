#include "data/token_file.hpp"

#include "data/token_writer.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <numeric>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

constexpr std::int64_t kVocabulary = 100;

constexpr TokenMark kIn = TokenMark::kInside;
constexpr TokenMark kNew = TokenMark::kBegins;
constexpr TokenMark kPad = TokenMark::kPadding;
constexpr TokenMark kMasked = TokenMark::kMasked;

/// A file whose `tokens` has that shape and counts from 0, and perhaps with document_starts.
std::filesystem::path write_tokens(const TemporaryDirectory& directory, DType dtype,
                                   const std::vector<std::int64_t>& shape,
                                   const std::vector<std::int64_t>& starts = {},
                                   const std::vector<std::int64_t>& mask = {}) {
  const std::filesystem::path path = directory / "tokens.h5";
  hdf5::File file = hdf5::File::create(path);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  file.create_dataset("/tokens", dtype, shape).write(std::span<const std::int64_t>(ids));
  if (!starts.empty())
    file.create_dataset("/document_starts", DType::kInt64, {std::ssize(starts)})
        .write(std::span<const std::int64_t>(starts));
  if (!mask.empty())
    file.create_dataset("/loss_mask", DType::kUInt8, {std::ssize(mask)})
        .write(std::span<const std::int64_t>(mask));
  file.close();
  return path;
}

TokenFile open_file(const std::filesystem::path& path, std::int64_t length,
                    std::int64_t vocabulary = kVocabulary) {
  return TokenFile::open(path, {.sequence_length = length, .vocab_size = vocabulary});
}

std::vector<std::int64_t> sequence(const TokenFile& file, std::int64_t index, std::int64_t length) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(length + 1));
  file.read_sequence(index, ids);
  return ids;
}

std::vector<TokenMark> marks(const TokenFile& file, std::int64_t index, std::int64_t length) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(length + 1));
  std::vector<TokenMark> marks(ids.size(), TokenMark::kPadding);
  file.read_sequence(index, ids, marks);
  return marks;
}

void expect_refused(const std::filesystem::path& path, std::int64_t length,
                    const std::vector<std::string>& parts) {
  expect_error(ExitCode::kBadData, parts, [&] { open_file(path, length); });
}

TEST(TokenFile, cuts_a_stream_into_sequences_that_share_a_token) {
  const TemporaryDirectory directory;
  const TokenFile file = open_file(write_tokens(directory, DType::kUInt16, {13}), 4);
  EXPECT_EQ(file.sequence_count(), 3);
  EXPECT_THAT(sequence(file, 0, 4), testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(sequence(file, 2, 4), testing::ElementsAre(8, 9, 10, 11, 12));
}

TEST(TokenFile, its_digest_changes_with_each_token_document_and_mask) {
  const auto digest = [](const std::vector<std::int64_t>& shape, std::vector<std::int64_t> starts = {},
                         std::vector<std::int64_t> mask = {}) {
    const TemporaryDirectory directory;
    return open_file(write_tokens(directory, DType::kInt32, shape, starts, mask), 4).digest().hex();
  };
  const std::string plain = digest({13});
  EXPECT_EQ(digest({13}), plain);
  EXPECT_NE(digest({14}), plain);
  EXPECT_NE(digest({13}, {0, 7}), plain);
  EXPECT_NE(digest({13}, {}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}), plain);
  EXPECT_NE(digest({3, 5}), digest({2, 5}));
}

TEST(TokenFile, has_pairs_of_its_own_documents) {
  const auto with_pairs = [](const TemporaryDirectory& directory, const std::vector<std::int64_t>& pairs,
                             std::int64_t width = 2) {
    TokenWriter writer(directory / "documents.h5", "documents.h5");
    for (int document = 0; document < 4; ++document) {
      writer.begin_document();
      writer.append(std::vector<std::int32_t>{1, 2, 3}, {});
    }
    writer.finish()
        .create_dataset("/pairs", DType::kInt64, {std::ssize(pairs) / width, width})
        .write(std::span<const std::int64_t>(pairs));
    writer.close();
    return directory / "documents.h5";
  };
  const TemporaryDirectory directory;
  const TokenFile file = open_file(with_pairs(directory, {2, 3, 1, 0}), 4);
  ASSERT_EQ(file.pairs().size(), 2U);
  EXPECT_EQ(file.pairs()[1].chosen, 1);
  EXPECT_EQ(file.pairs()[1].rejected, 0);
  const TemporaryDirectory other, beyond, twice, wide;
  EXPECT_NE(open_file(with_pairs(other, {3, 2, 1, 0}), 4).digest(), file.digest());
  expect_refused(with_pairs(beyond, {0, 1, 2, 4}), 4, {"pairs[1]", "[2, 4]", "4 documents"});
  expect_refused(with_pairs(twice, {1, 1}), 4, {"pairs[0]", "[1, 1]"});
  expect_refused(with_pairs(wide, {0, 1, 2}, 3), 4, {"'pairs'", "[1, 3]", "[n, 2]"});
}

TEST(TokenFile, knows_how_many_answers_of_its_conversations_teach_no_end) {
  const TemporaryDirectory directory;
  TokenWriter writer(directory / "answers.h5", "answers.h5");
  writer.begin_document();
  const std::vector<std::int32_t> ids{1, 2, 3, 4, 5};
  writer.append(ids, {});
  writer.count_answers({.all = 3, .endless = 1});
  writer.count_answers({.all = 2, .endless = 1});
  writer.finish();
  writer.close();
  EXPECT_EQ(open_file(directory / "answers.h5", 4).answers().all, 5);
  EXPECT_EQ(open_file(directory / "answers.h5", 4).answers().endless, 2);
  EXPECT_EQ(open_file(write_tokens(directory, DType::kInt32, {13}), 4).answers().all, 0);
}

TEST(TokenFile, leaves_out_what_is_too_short_for_a_sequence) {
  for (const auto& [tokens, sequences] : {std::pair{5, 1}, {8, 1}, {9, 2}, {12, 2}}) {
    const TemporaryDirectory directory;
    EXPECT_EQ(open_file(write_tokens(directory, DType::kInt32, {tokens}), 4).sequence_count(), sequences);
  }
}

TEST(TokenFile, takes_rows_as_sequences) {
  const TemporaryDirectory directory;
  const TokenFile file = open_file(write_tokens(directory, DType::kInt64, {3, 5}), 4);
  EXPECT_EQ(file.sequence_count(), 3);
  EXPECT_THAT(sequence(file, 1, 4), testing::ElementsAre(5, 6, 7, 8, 9));
}

TEST(TokenFile, reads_every_integer_type) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8,
                            DType::kUInt16, DType::kUInt32, DType::kUInt64}) {
    const TemporaryDirectory directory;
    EXPECT_THAT(sequence(open_file(write_tokens(directory, dtype, {5}), 4), 0, 4),
                testing::ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(TokenFile, names_an_id_that_the_model_does_not_know) {
  const TemporaryDirectory directory;
  const std::filesystem::path stream = write_tokens(directory, DType::kInt32, {13});
  expect_error(ExitCode::kBadData, {"tokens[10] in", "tokens.h5", "is 10", "0 to 9", "tokenizer"},
               [&] { sequence(open_file(stream, 4, 10), 2, 4); });
  EXPECT_NO_THROW(sequence(open_file(stream, 4, 10), 1, 4));
  const TemporaryDirectory other;
  const std::filesystem::path rows = write_tokens(other, DType::kInt32, {3, 5});
  expect_error(ExitCode::kBadData, {"tokens[2, 1] in"}, [&] { sequence(open_file(rows, 4, 11), 2, 4); });
}

TEST(TokenFile, refuses_ids_below_zero_and_beyond_64_bits) {
  const TemporaryDirectory directory;
  for (const DType dtype : {DType::kInt64, DType::kUInt64}) {
    const std::filesystem::path path = directory / std::string(name_of(dtype));
    hdf5::File file = hdf5::File::create(path);
    const std::vector<std::int64_t> ids{1, -5};
    const std::vector<double> huge{1, 0x1.8p63};
    hdf5::Dataset tokens = file.create_dataset("/tokens", dtype, {2});
    if (dtype == DType::kInt64)
      tokens.write(std::span(ids));
    else
      tokens.write(std::span(huge));
    file.flush();
    expect_error(ExitCode::kBadData, {"tokens[1]"}, [&] { sequence(open_file(path, 1), 0, 1); });
  }
}

TEST(TokenFile, refuses_a_file_without_usable_tokens) {
  const TemporaryDirectory directory;
  expect_refused(directory / "none.h5", 4, {"none.h5", "No such file"});
  expect_refused(directory.write("text.h5", "text"), 4, {"text.h5", "HDF5"});
  {
    hdf5::File file = hdf5::File::create(directory / "other.h5");
    file.create_dataset("/ids", DType::kInt32, {4});
    file.create_dataset("/text", DType::kInt32, {4});
  }
  expect_refused(directory / "other.h5", 4, {"no dataset 'tokens'", "ids, text"});
  { hdf5::File::create(directory / "floats.h5").create_dataset("/tokens", DType::kFloat32, {100}); }
  expect_refused(directory / "floats.h5", 4, {"does not hold integers"});
}

TEST(TokenFile, refuses_shapes_that_hold_no_sequence) {
  const auto refuse = [](const std::vector<std::int64_t>& shape, const std::vector<std::string>& parts) {
    const TemporaryDirectory directory;
    expect_refused(write_tokens(directory, DType::kInt32, shape), 4, parts);
  };
  refuse({0}, {"has 0 tokens", "at least 5"});
  refuse({4}, {"has 4 tokens", "data.sequence_length = 4 needs at least 5"});
  refuse({0, 5}, {"no rows"});
  refuse({3, 4}, {"rows of 4 tokens", "data.sequence_length = 3", "the job says 4"});
  refuse({3, 9}, {"rows of 9 tokens", "data.sequence_length = 8"});
  refuse({2, 3, 5}, {"shape [2, 3, 5]", "stream [n] or rows"});
  refuse({}, {"shape []"});
}

TEST(TokenFile, keeps_the_rest_of_a_stream_in_a_sequence_with_padding) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = write_tokens(directory, DType::kInt32, {11});
  const TokenFile file = TokenFile::open(path, {.sequence_length = 4, .vocab_size = 100, .keep_rest = true});
  ASSERT_EQ(file.sequence_count(), 3);
  EXPECT_THAT(sequence(file, 2, 4), testing::ElementsAre(8, 9, 10, 0, 0));
  EXPECT_THAT(marks(file, 2, 4), testing::ElementsAre(kIn, kIn, kIn, kPad, kPad));
  EXPECT_THAT(marks(file, 0, 4), testing::ElementsAre(kNew, kIn, kIn, kIn, kIn));
  EXPECT_EQ(file.count_documents(), 1);
  EXPECT_FALSE(file.marks_documents());
}

TEST(TokenFile, a_stream_of_whole_sequences_has_no_rest) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = write_tokens(directory, DType::kInt32, {9});
  EXPECT_EQ(
      TokenFile::open(path, {.sequence_length = 4, .vocab_size = 100, .keep_rest = true}).sequence_count(),
      2);
}

TEST(TokenFile, a_document_begins_behind_each_separator) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = write_tokens(directory, DType::kInt32, {9});
  for (const auto& [separator, first, second] :
       {std::tuple{2, std::vector{kNew, kIn, kIn, kNew, kIn}, std::vector{kIn, kIn, kIn, kIn, kIn}},
        // The last target of a sequence is the first token of the next one: it begins its document there
        // alone.
        {3, {kNew, kIn, kIn, kIn, kNew}, {kIn, kIn, kIn, kIn, kIn}},
        {4, {kNew, kIn, kIn, kIn, kIn}, {kIn, kNew, kIn, kIn, kIn}}}) {
    const TokenFile file =
        TokenFile::open(path, {.sequence_length = 4, .vocab_size = 100, .separator_token = separator});
    EXPECT_TRUE(file.marks_documents());
    EXPECT_EQ(marks(file, 0, 4), first) << separator;
    EXPECT_EQ(marks(file, 1, 4), second) << separator;
    EXPECT_EQ(file.count_documents(), 2);
  }
}

TEST(TokenFile, rows_are_documents_that_separators_cut_further) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = write_tokens(directory, DType::kInt32, {3, 5});
  const TokenFile file =
      TokenFile::open(path, {.sequence_length = 4, .vocab_size = 100, .separator_token = 6});
  EXPECT_THAT(marks(file, 1, 4), testing::ElementsAre(kNew, kIn, kNew, kIn, kIn));
  EXPECT_EQ(file.count_documents(), 4);
}

TEST(TokenFile, takes_documents_from_their_dataset) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = write_tokens(directory, DType::kInt32, {13}, {{0, 3, 4, 9}});
  const TokenFile file = open_file(path, 4);
  EXPECT_TRUE(file.marks_documents());
  EXPECT_THAT(marks(file, 0, 4), testing::ElementsAre(kNew, kIn, kIn, kNew, kNew));
  EXPECT_THAT(marks(file, 1, 4), testing::ElementsAre(kIn, kIn, kIn, kIn, kIn));
  EXPECT_THAT(marks(file, 2, 4), testing::ElementsAre(kIn, kNew, kIn, kIn, kIn));
  EXPECT_EQ(file.count_documents(), 4);
}

TEST(TokenFile, finds_documents_beyond_the_first_block_of_their_dataset) {
  const TemporaryDirectory directory;
  std::vector<std::int64_t> starts(10'000);
  for (std::size_t i = 0; i < starts.size(); ++i) starts[i] = 3 * static_cast<std::int64_t>(i) + 1;
  const std::filesystem::path path = directory / "long.h5";
  {
    hdf5::File file = hdf5::File::create(path);
    file.create_dataset("/tokens", DType::kInt32, {30'001})
        .write(std::span<const std::int64_t>(std::vector<std::int64_t>(30'001)));
    file.create_dataset("/document_starts", DType::kInt64, {10'000})
        .write(std::span<const std::int64_t>(starts));
  }
  const TokenFile file = open_file(path, 4);
  EXPECT_EQ(file.count_documents(), 10'001);
  EXPECT_THAT(marks(file, 7000, 4), testing::ElementsAre(kIn, kIn, kIn, kNew, kIn)) << "28003 = 3 * 9334 + 1";
}

TEST(TokenFile, refuses_document_starts_that_cannot_be) {
  const auto refuse = [](const std::vector<std::int64_t>& starts, const std::vector<std::string>& parts) {
    const TemporaryDirectory directory;
    expect_refused(write_tokens(directory, DType::kInt32, {13}, starts), 4, parts);
  };
  refuse({0, 13}, {"document_starts[1]", "is 13", "13 tokens"});
  refuse({0, 5, 5}, {"document_starts[2]", "is 5", "at least 6"});
  refuse({-1}, {"document_starts[0]", "is -1"});
}

TEST(TokenFile, refuses_a_separator_that_is_no_token_or_one_too_many) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = write_tokens(directory, DType::kInt32, {13}, {{0, 3}});
  expect_error(ExitCode::kBadData, {"document_starts", "data.separator_token = 5"}, [&] {
    TokenFile::open(path, {.sequence_length = 4, .vocab_size = 100, .separator_token = 5});
  });
  const TemporaryDirectory other;
  const std::filesystem::path plain = write_tokens(other, DType::kInt32, {13});
  expect_error(ExitCode::kBadData, {"data.separator_token = 100", "0 to 99"}, [&] {
    TokenFile::open(plain, {.sequence_length = 4, .vocab_size = 100, .separator_token = 100});
  });
}

TEST(TokenFile, reads_text_tokenised_with_python) {
  const TokenFile file = open_file(fixture_folder() / "moby-dick.tokens.h5", 64, 1 << 20);
  EXPECT_GT(file.sequence_count(), 100);
  EXPECT_EQ(sequence(file, 0, 64).back(), sequence(file, 1, 64).front());
}

TEST(TokenFile, masks_tokens_inside_documents) {
  const TemporaryDirectory directory;
  const TokenFile file =
      open_file(write_tokens(directory, DType::kUInt8, {7}, {0, 5}, {0, 1, 0, 1, 1, 0, 1}), 3);
  EXPECT_TRUE(file.masks_targets());
  EXPECT_THAT(marks(file, 0, 3), testing::ElementsAre(kNew, kIn, kMasked, kIn));
  EXPECT_THAT(marks(file, 1, 3), testing::ElementsAre(kIn, kIn, kNew, kIn));
}

TEST(TokenFile, refuses_a_mask_of_other_tokens) {
  const TemporaryDirectory directory;
  expect_refused(write_tokens(directory, DType::kUInt8, {7}, {}, {0, 1, 0}), 3,
                 {"'loss_mask'", "the shape [3]", "tokens [7]"});
}

/// What check_sequences() finds in all sequences.
bool finds_target(const TokenFile& file) {
  bool has_target = false;
  file.check_sequences(0, file.sequence_count(), has_target);
  return has_target;
}

TEST(TokenFile, names_the_place_of_a_bad_mask_before_any_sequence_is_read) {
  const TemporaryDirectory directory;
  const TokenFile stream =
      open_file(write_tokens(directory, DType::kUInt8, {7}, {}, {1, 1, 1, 1, 1, 7, 1}), 3);
  expect_error(ExitCode::kBadData, {"loss_mask[5]", "tokens.h5", " is 7"}, [&] { finds_target(stream); });
  expect_error(ExitCode::kBadData, {"loss_mask[5]", " is 7"}, [&] { stream.check_run({2, 5}); });
  EXPECT_NO_THROW(stream.check_run({0, 5}));
  bool has_target = true;
  EXPECT_NO_THROW(stream.check_sequences(0, 1, has_target)) << "a sequence that is not read";
  expect_error(ExitCode::kBadData, {"loss_mask[5]"}, [&] { stream.check_sequences(1, 1, has_target); });
}

TEST(TokenFile, names_row_and_column_of_a_bad_mask_that_is_looked_at_with_other_rows) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "rows.h5";
  {
    hdf5::File file = hdf5::File::create(path);
    const std::vector<std::int64_t> ids(12, 1);
    std::vector<std::int64_t> mask(12, 1);
    mask[9] = -100;
    file.create_dataset("/tokens", DType::kInt32, {3, 4}).write(std::span(ids));
    file.create_dataset("/loss_mask", DType::kInt16, {3, 4}).write(std::span<const std::int64_t>(mask));
  }
  const TokenFile rows = open_file(path, 3);
  expect_error(ExitCode::kBadData, {"loss_mask[2, 1]", "rows.h5", " is -100"}, [&] { finds_target(rows); });
}

TEST(TokenFile, finds_whether_any_token_is_a_target) {
  const auto found = [](const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& starts,
                        const std::vector<std::int64_t>& mask) {
    const TemporaryDirectory directory;
    return finds_target(open_file(write_tokens(directory, DType::kUInt8, shape, starts, mask), 3));
  };
  EXPECT_TRUE(found({7}, {}, {}));
  EXPECT_TRUE(found({7}, {}, {0, 0, 0, 0, 0, 0, 1}));
  EXPECT_FALSE(found({7}, {}, {1, 0, 0, 0, 0, 0, 0})) << "nothing predicts the first token";
  EXPECT_FALSE(found({7}, {5}, {1, 0, 0, 0, 0, 1, 0})) << "nor that of a document";
  EXPECT_FALSE(found({7}, {0, 1, 2, 3, 4, 5, 6}, {}));
  EXPECT_TRUE(found({7}, {0, 1, 2, 3, 4, 5}, {}));
  EXPECT_FALSE(found({8}, {0, 1, 2, 3, 4, 5, 6}, {})) << "the last token is in no sequence";
  EXPECT_TRUE(found({2, 4}, {}, {}));
  EXPECT_FALSE(found({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}, {}));
  EXPECT_TRUE(found({2, 4}, {0, 1, 2, 3, 4, 6}, {}));
}

TEST(TokenFile, finds_whether_a_run_has_a_target) {
  const TemporaryDirectory directory;
  const TokenFile masked =
      open_file(write_tokens(directory, DType::kUInt8, {7}, {0, 3}, {1, 0, 0, 1, 0, 0, 1}), 3);
  EXPECT_FALSE(masked.has_target({0, 3}));
  EXPECT_TRUE(masked.has_target({3, 4}));
  EXPECT_FALSE(masked.has_target({3, 3}));
  const TemporaryDirectory other;
  const TokenFile plain = open_file(write_tokens(other, DType::kUInt8, {7}, {0, 3}), 3);
  EXPECT_TRUE(plain.has_target({0, 2}));
  EXPECT_FALSE(plain.has_target({0, 1}));
}

TEST(TokenFile, takes_a_mask_of_booleans_as_h5py_writes_them) {
  const TokenFile file = open_file(fixture_folder() / "boolean-mask.tokens.h5", 3);
  EXPECT_TRUE(file.masks_targets());
  EXPECT_THAT(marks(file, 0, 3), testing::ElementsAre(kNew, kIn, kMasked, kIn));
  EXPECT_THAT(marks(file, 1, 3), testing::ElementsAre(kIn, kMasked, kMasked, kIn));
  EXPECT_TRUE(finds_target(file));
}

TEST(TokenFile, names_the_place_of_a_mask_that_is_neither_0_nor_1) {
  const TemporaryDirectory directory;
  const TokenFile file = open_file(write_tokens(directory, DType::kUInt8, {7}, {}, {1, 1, 1, 1, 1, 7, 1}), 3);
  EXPECT_THAT(marks(file, 0, 3), testing::ElementsAre(kNew, kIn, kIn, kIn));
  expect_error(ExitCode::kBadData, {"loss_mask[5]", " is 7"}, [&] { marks(file, 1, 3); });
}

}  // namespace
}  // namespace sluice
