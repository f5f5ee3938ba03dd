#include "corpus/source_reader.hpp"

#include "corpus/fixture_tokenizer.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace sluice::corpus {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using testing::ElementsAre;

std::vector<DocumentPiece> pieces_of(std::vector<std::filesystem::path> paths,
                                     DocumentEnds documents = DocumentEnds::kFile,
                                     Format format = Format::kAuto) {
  SourceReader reader(std::move(paths), format, documents, &test::fixture_tokenizer());
  std::vector<DocumentPiece> all;
  std::int64_t read = 0;
  while (std::optional<PieceBatch> batch = reader.next()) {
    for (DocumentPiece& piece : batch->pieces) all.push_back(std::move(piece));
    EXPECT_GE(batch->bytes_read, read);
    read = batch->bytes_read;
  }
  EXPECT_EQ(read, reader.total_bytes());
  return all;
}

std::vector<std::string> texts_of(const std::vector<DocumentPiece>& pieces) {
  std::vector<std::string> texts;
  for (const DocumentPiece& piece : pieces) texts.push_back(piece.bytes);
  return texts;
}

TEST(SourceReader, takes_a_file_of_text_as_a_document) {
  const TemporaryDirectory directory;
  const std::vector<DocumentPiece> pieces =
      pieces_of({directory.write("a.txt", "one\n\ntwo\n"), directory.write("b.txt", "")});
  EXPECT_THAT(texts_of(pieces), ElementsAre("one\n\ntwo\n", ""));
  EXPECT_TRUE(pieces[0].begins && pieces[0].ends && !pieces[0].is_json);
  EXPECT_EQ(pieces[1].source, 1U);
}

TEST(SourceReader, takes_a_file_without_a_word_as_an_empty_document) {
  const TemporaryDirectory directory;
  for (const std::string& blank :
       {std::string("\n\n \n"), std::string("\xef\xbb\xbf\r\n"), std::string(3 << 20, '\n')})
    EXPECT_THAT(texts_of(pieces_of({directory.write("a.txt", blank)})), ElementsAre(""));
  const std::string late = std::string(2 << 20, '\n') + "one";
  std::string joined;
  for (const std::string& text : texts_of(pieces_of({directory.write("a.txt", late)}))) joined += text;
  EXPECT_EQ(joined, late);
}

TEST(SourceReader, parts_documents_at_blank_lines_and_knows_where_each_began) {
  const TemporaryDirectory directory;
  const std::vector<DocumentPiece> pieces =
      pieces_of({directory.write("a.txt", "\n \none\ntwo\n\n\t\nthree")}, DocumentEnds::kBlank);
  EXPECT_THAT(texts_of(pieces), ElementsAre("one\ntwo", "three"));
  EXPECT_EQ(pieces[0].line, 3);
  EXPECT_EQ(pieces[1].line, 7);
}

TEST(SourceReader, takes_lines_of_json_by_the_name_or_as_told) {
  const TemporaryDirectory directory;
  const std::vector<DocumentPiece> by_name = pieces_of({directory.write("a.jsonl", "{}\n\n{ }")});
  EXPECT_THAT(texts_of(by_name), ElementsAre("{}", "{ }"));
  EXPECT_TRUE(by_name[0].is_json);
  EXPECT_EQ(by_name[1].line, 3);
  EXPECT_EQ(place_text("a.jsonl", by_name[1].line, by_name[1].row), "a.jsonl:3: ");
  EXPECT_THAT(
      texts_of(pieces_of({directory.write("a.log", "{}\n{}\n")}, DocumentEnds::kFile, Format::kJsonLines)),
      ElementsAre("{}", "{}"));
  EXPECT_THAT(texts_of(pieces_of({directory / "a.jsonl"}, DocumentEnds::kFile, Format::kText)),
              ElementsAre("{}\n\n{ }"));
}

TEST(SourceReader, hands_a_long_document_out_in_parts_that_encode_as_the_whole) {
  const TemporaryDirectory directory;
  std::string text;
  while (text.size() < 3'000'000) text += "The whale number " + std::to_string(text.size()) + " is here.\n";
  const std::vector<DocumentPiece> pieces = pieces_of({directory.write("a.txt", text)});
  ASSERT_GT(pieces.size(), 1U);
  text::Encoder encoder(test::fixture_tokenizer());
  std::vector<text::TokenId> ids, whole;
  std::string joined;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].begins, i == 0);
    EXPECT_EQ(pieces[i].ends, i + 1 == pieces.size());
    joined += pieces[i].bytes;
    encoder.append(pieces[i].bytes, ids, i == 0 ? text::Continues::kNo : text::Continues::kYes);
  }
  EXPECT_EQ(joined, text);
  encoder.append(text, whole);
  EXPECT_EQ(ids, whole);
}

TEST(SourceReader, takes_lines_of_text_where_documents_are_lines_and_needs_no_tokenizer) {
  const TemporaryDirectory directory;
  SourceReader reader({directory.write("a.txt", "one\n\ntwo")}, Format::kAuto, DocumentEnds::kLine, nullptr);
  EXPECT_THAT(texts_of(reader.next()->pieces), ElementsAre("one", "two"));
}

TEST(SourceReader, takes_the_rows_of_an_array_and_says_where_each_is) {
  const TemporaryDirectory directory;
  const std::vector<DocumentPiece> pieces = pieces_of({directory.write(
      "a.json", "\xef\xbb\xbf[\n {\"a\": \"],{\\\"\"},\n{\"b\": [1, {}]}\n , {\"c\": 2}]\n")});
  EXPECT_THAT(texts_of(pieces), ElementsAre(R"({"a": "],{\""})", R"({"b": [1, {}]})", R"({"c": 2})"));
  EXPECT_EQ(place_text("a.json", pieces[1].line, pieces[1].row), "a.json:3: row 2 ");
  EXPECT_TRUE(pieces[2].is_json);
}

TEST(SourceReader, takes_objects_over_several_lines_one_after_another) {
  const TemporaryDirectory directory;
  EXPECT_THAT(texts_of(pieces_of({directory.write("a.json", "{\n\"a\": 1}\n{\"a\":\n2}")})),
              ElementsAre("{\n\"a\": 1}", "{\"a\":\n2}"));
}

TEST(SourceReader, holds_no_more_of_a_long_array_than_a_few_blocks) {
  const TemporaryDirectory directory;
  std::string array = "[";
  std::size_t rows = 0;
  for (; array.size() < 5'000'000; ++rows)
    array += (rows > 0 ? "," : "") + std::string(R"({"text": "whale"})");
  SourceReader reader({directory.write("a.json", array + "]")}, Format::kAuto, DocumentEnds::kFile, nullptr);
  std::size_t batches = 0;
  std::size_t found = 0;
  while (const std::optional<PieceBatch> batch = reader.next()) {
    ++batches;
    found += batch->pieces.size();
  }
  EXPECT_EQ(found, rows);
  EXPECT_GE(batches, 4U);
}

TEST(SourceReader, tells_what_is_wrong_between_rows_and_goes_on) {
  const TemporaryDirectory directory;
  const std::vector<DocumentPiece> pieces = pieces_of(
      {directory.write("a.json", R"([{"a": 1} {"a": 2}, 3, {"a": 4})")}, DocumentEnds::kFile, Format::kJson);
  ASSERT_EQ(pieces.size(), 6U);
  EXPECT_THAT(pieces[1].fault, testing::HasSubstr("followed by '{'"));
  EXPECT_EQ(pieces[2].bytes, R"({"a": 2})");
  EXPECT_EQ(pieces[3].bytes, "3");
  EXPECT_THAT(pieces[5].fault, testing::HasSubstr("array does not end"));
}

TEST(SourceReader, reads_a_pipe_once_as_it_reads_a_file) {
  const TemporaryDirectory directory;
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += R"({"text": "whale )" + std::to_string(i) + "\"}\n";
  const auto fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(fifo) << lines; });
  const std::vector<DocumentPiece> piped = [&] {
    SourceReader reader({fifo}, Format::kAuto, DocumentEnds::kFile, nullptr);
    std::vector<DocumentPiece> all;
    while (std::optional<PieceBatch> batch = reader.next())
      for (DocumentPiece& piece : batch->pieces) all.push_back(std::move(piece));
    return all;
  }();
  writer.join();
  EXPECT_TRUE(piped.front().is_json);
  EXPECT_EQ(texts_of(piped), texts_of(pieces_of({directory.write("a.jsonl", lines)})));
}

TEST(SourceReader, a_missing_file_is_known_before_any_is_read) {
  expect_error(ExitCode::kBadData, {"/nowhere.txt"}, [] { pieces_of({"/nowhere.txt"}); });
}

}  // namespace
}  // namespace sluice::corpus
