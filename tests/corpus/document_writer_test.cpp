#include "corpus/document_writer.hpp"

#include "corpus/fixture_tokenizer.hpp"
#include "io/hdf5.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace sluice::corpus {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using testing::ElementsAre;
using Ids = std::vector<std::int64_t>;

constexpr text::TokenId kEnd = 9, kSeparator = 8;

class DocumentWriterTest : public testing::Test {
 protected:
  /// Writes these and closes the file; the dataset is read from it.
  void write(const std::vector<EncodedDocumentPiece>& pieces) {
    DocumentWriter writer(test::fixture_tokenizer(),
                          {.end = kEnd, .separator = kSeparator, .vocab_size = 100}, file_, nullptr, 0);
    for (const EncodedDocumentPiece& piece : pieces) writer.write(piece, "a.txt");
    empty_ = writer.empty_documents();
    file_.writer().finish();
    file_.writer().close();
    file_.commit();
  }
  Ids read(const char* dataset) { return hdf5::File::open(path_).dataset(dataset).read<std::int64_t>(); }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "out.h5";
  StagedTokenFile file_{path_};
  std::int64_t empty_ = 0;
};

EncodedDocumentPiece text_of(std::vector<text::TokenId> ids, bool begins = true, bool ends = true) {
  return {
      .ids = std::move(ids), .mask = {}, .fault = "", .is_text_file = true, .begins = begins, .ends = ends};
}

TEST_F(DocumentWriterTest, ends_documents_with_the_end_token_unless_they_do_already) {
  write({text_of({1, 2}), text_of({3, kEnd}), text_of({})});
  EXPECT_THAT(read("/tokens"), ElementsAre(1, 2, kEnd, 3, kEnd));
  EXPECT_THAT(read("/document_starts"), ElementsAre(0, 3));
  EXPECT_EQ(empty_, 1);
}

TEST_F(DocumentWriterTest, writes_pairs_as_two_documents_and_leaves_out_equal_ones) {
  const auto pair = [](std::vector<text::TokenId> chosen, std::vector<text::TokenId> rejected,
                       PairFault fault) {
    EncodedDocumentPiece piece;
    piece.is_conversation = true;
    piece.mask.assign(chosen.size(), 1);
    piece.rejected_mask.assign(rejected.size(), 0);
    piece.ids = std::move(chosen);
    piece.rejected_ids = std::move(rejected);
    piece.pair_fault = fault;
    return piece;
  };
  write({pair({1, 2}, {1, 3, 4}, PairFault::kNone), pair({5, 6}, {5, 6}, PairFault::kEqual),
         pair({7}, {8, 9}, PairFault::kUnevenEnd)});
  EXPECT_THAT(read("/tokens"), ElementsAre(1, 2, 1, 3, 4, 7, 8, 9));
  EXPECT_THAT(read("/loss_mask"), ElementsAre(1, 1, 0, 0, 0, 1, 0, 0));
  EXPECT_THAT(read("/document_starts"), ElementsAre(0, 2, 5, 6));
  EXPECT_THAT(read("/pairs"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(hdf5::File::open(path_).dataset("/pairs").shape(), ElementsAre(2, 2));
}

TEST_F(DocumentWriterTest, joins_the_parts_of_a_document_and_splits_at_the_separator) {
  write({text_of({1, 2}, true, false), text_of({3}, false, true), text_of({4, kSeparator, 5, kSeparator})});
  EXPECT_THAT(read("/tokens"), ElementsAre(1, 2, 3, kEnd, 4, kEnd, 5, kEnd));
  EXPECT_THAT(read("/document_starts"), ElementsAre(0, 4, 6));
}

TEST_F(DocumentWriterTest, an_id_that_the_model_does_not_know_is_refused) {
  expect_error(ExitCode::kBadData, {"a.txt:", "id is 100", "0 to 99"}, [&] { write({text_of({1, 100})}); });
}

TEST_F(DocumentWriterTest, writes_conversations_as_they_are_laid_out_and_counts_all_of_a_text) {
  EncodedDocumentPiece chat{.ids = {1, 2, 3}, .mask = {0, 1, 0}, .fault = "", .is_conversation = true};
  write({text_of({5}), chat, text_of({4})});
  EXPECT_THAT(read("/tokens"), ElementsAre(5, kEnd, 1, 2, 3, 4, kEnd));
  EXPECT_THAT(read("/loss_mask"), ElementsAre(1, 1, 0, 1, 0, 1, 1))
      << "a mask begins with the first conversation";
}

TEST_F(DocumentWriterTest, writes_no_mask_where_there_is_no_conversation) {
  write({text_of({5})});
  EXPECT_FALSE(hdf5::File::open(path_).exists("/loss_mask"));
}

TEST(StagedTokenFile, has_no_name_before_it_is_whole_and_takes_none_that_is_there) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "out.h5";
  {
    StagedTokenFile file(path);
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_TRUE(std::filesystem::exists(file.staging()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "what was not committed is gone";
  static_cast<void>(directory.write("out.h5", "mine"));
  expect_error(ExitCode::kUsage, {"out.h5 is there already"}, [&] { const StagedTokenFile other(path); });
}

}  // namespace
}  // namespace sluice::corpus
