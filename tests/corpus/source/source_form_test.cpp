#include "corpus/source/source_form.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::corpus {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

SourceForm form(const std::string& head, const char* name = "a", Format format = Format::kAuto) {
  return form_of(head, KnownPart::kAll, name, format);
}

TEST(SourceForm, is_lines_where_the_first_line_is_an_object_whatever_the_name_says) {
  for (const char* name : {"a.json", "a.jsonl", "a", "a.log"}) {
    EXPECT_EQ(form("{\"text\": \"a\"}\n{\"text\": \"b\"}\n", name), SourceForm::kJsonLines) << name;
    EXPECT_EQ(form("\xef\xbb\xbf\n {\"text\": NaN}", name), SourceForm::kJsonLines) << name;
    EXPECT_EQ(form("{\"text\": \"\xff\"}\n{", name), SourceForm::kJsonLines) << name;
    EXPECT_EQ(form("{\"text\": \"b\n{\"text\": \"b\"}\n{\"text\": \"c\"}\n", name), SourceForm::kJsonLines)
        << name << ": an unreadable first line";
  }
  EXPECT_EQ(form("{\"te\n{\"text\": \"b\"}\n", "a.jsonl"), SourceForm::kJsonLines);
  const std::string long_line = "{\"text\": \"" + std::string(1000, 'a');
  EXPECT_EQ(form_of(long_line, KnownPart::kFront, "a", Format::kAuto), SourceForm::kJsonLines);
}

TEST(SourceForm, is_values_in_an_array_or_over_lines) {
  for (const char* name : {"a.json", "a.jsonl", "a"}) {
    EXPECT_EQ(form("[{\"text\": \"a\"}, {\"text\": \"b\"}]\n", name), SourceForm::kJsonValues) << name;
    EXPECT_EQ(form("\n[\n  {\n    \"text\": \"a\"\n", name), SourceForm::kJsonValues)
        << name << ", cut short";
    EXPECT_EQ(form("{\n  \"text\": \"a\"\n}\n{\n\"text\": \"b\"}\n", name), SourceForm::kJsonValues) << name;
  }
}

TEST(SourceForm, is_text_by_name_and_where_it_only_begins_like_json) {
  EXPECT_EQ(form("{\"text\": \"a\"}\n", "a.txt"), SourceForm::kText);
  EXPECT_EQ(form("[{\"text\": \"a\"}]\n", "a.txt"), SourceForm::kText);
  for (const char* text :
       {"{% for x in y %}\n", "{ is a brace\n", "[1] A reference\n", "[{ no JSON", "{\"a\": 1} is JSON",
        "{}\n", "[a](b)\n", "Call me Ishmael.\n", "", "Rows:\n{\"a\": 1}\nand so on\n"})
    EXPECT_EQ(form(text), SourceForm::kText) << text;
}

TEST(SourceForm, is_as_told) {
  EXPECT_EQ(form("{\"text\": \"a\"}\n", "a.jsonl", Format::kText), SourceForm::kText);
  EXPECT_EQ(form("Call me\n", "a.txt", Format::kJsonLines), SourceForm::kJsonLines);
  EXPECT_EQ(form("{}\n", "a.txt", Format::kJson), SourceForm::kJsonValues);
}

TEST(SourceForm, of_a_json_file_without_json_is_refused) {
  expect_error(ExitCode::kBadData, {"a.json is not JSON", "--format text"},
               [] { static_cast<void>(form("Call me Ishmael.\n", "a.json")); });
}

TEST(SourceForm, of_compressed_and_binary_files_is_refused_with_what_to_do) {
  using namespace std::string_literals;
  const std::vector<std::pair<std::string, std::string>> known{
      {"\x1f\x8b\x08"s, "zcat"},
      {"\x28\xb5\x2f\xfd"s, "zstdcat"},
      {"\xfd"
       "7zXZ\0"s,
       "xzcat"},
      {"BZh91AY&SY"s, "bzcat"},
      {"PK\x03\x04"s, "unzip"},
      {"PAR1"s, "JSONL"},
      {"ARROW1\0\0"s, "JSONL"},
      {"\xff\xff\xff\xff\x10"s, "JSONL"},
      {"\x80\x04\x95"s, "pickle"},
      {"\x89HDF\r\n\x1a\n"s, "data.tokens"},
      {"\x93NUMPY"s, "NumPy"},
      {"\xff\xfe"
       "a\0"s,
       "iconv"},
      {std::string(257, '\0') + "ustar", "tar"},
  };
  for (const auto& [head, part] : known)
    for (const char* name : {"a.txt", "a.jsonl", "a"})
      expect_error(ExitCode::kBadData, {name, part},
                   [&, &head = head] { static_cast<void>(form(head, name)); });
  EXPECT_EQ(form("PAR1 is how Parquet begins", "a.txt", Format::kText), SourceForm::kText);
  expect_error(ExitCode::kBadData, {"gzip"},
               [] { static_cast<void>(form("\x1f\x8b", "a.txt", Format::kText)); });
  expect_error(ExitCode::kBadData, {"zero byte at offset 1", "--format text"},
               [] { static_cast<void>(form("a\0b"s)); });
  EXPECT_EQ(form("a\0b"s, "a.txt"), SourceForm::kText);
}

TEST(IsText, tells_texts_from_token_files) {
  const TemporaryDirectory directory;
  for (const char* name : {"a.txt", "a.jsonl", "dir/a.b.ndjson", "a.json"})
    EXPECT_TRUE(is_text(name)) << name << ", which is not there";
  for (const char* name : {"a.h5", "a", "txt", "a.txt.h5"}) EXPECT_FALSE(is_text(name)) << name;
  EXPECT_TRUE(is_text(directory.write("chats", "[{\"text\": \"a\"}]")));
  EXPECT_TRUE(is_text(directory.write("book.md", "Call me Ishmaël.")));
  EXPECT_FALSE(is_text(directory.write("tokens", "\x89HDF\r\n\x1a\n and so on")));
  EXPECT_FALSE(is_text(directory.write("named.jsonl", "\x89HDF\r\n\x1a\n and so on")));
  EXPECT_FALSE(is_text(directory.write("cut.h5", "no HDF5")));
  EXPECT_FALSE(is_text(directory.write("ids.bin", "\xc3\x28 no text \xff and more")));
  EXPECT_FALSE(is_text(directory.write("empty", "")));
  expect_error(ExitCode::kBadData, {"rows.parquet", "Parquet"},
               [&] { static_cast<void>(is_text(directory.write("rows.parquet", "PAR1\x15\x04"))); });
  expect_error(ExitCode::kBadData, {"/dev/null", "sluice tokenize"},
               [] { static_cast<void>(is_text("/dev/null")); });
}

}  // namespace
}  // namespace sluice::corpus
