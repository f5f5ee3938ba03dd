#include "text/tiktoken_file.hpp"

#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"
#include "text/tokenizer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace sluice::text {
namespace {

namespace fs = std::filesystem;
const fs::path kKimi = fixture_folder() / "tokenizers/kimi";

TEST(Tiktoken, tokens_are_bytes_by_rank_in_whatever_order_the_lines_are) {
  EXPECT_EQ(parse_tiktoken("AGI= 1\nYQ== 0\n\nYWJj 2", "file"),
            (std::vector<std::string>{"a", std::string("\0b", 2), "abc"}));
}

TEST(Tiktoken, a_vocabulary_may_have_any_number_of_tokens) {
  std::string lines;
  int count = 0;
  for (const char* token : {"YQ==", "Yg==", "Yw==", "ZA=="}) {
    lines += fmt::format("{} {}\n", token, count);
    EXPECT_EQ(parse_tiktoken(lines, "file").size(), static_cast<std::size_t>(++count));
  }
}

TEST(Tiktoken, lines_of_another_form_are_refused_by_number) {
  for (const char* line :
       {"YQ 1", "YQ==1", "YQ== x", "YQ== -1", "YQ== 99999999", "Y*== 1", "YR== 1", " 1", "YQ== 1 2"})
    test::expect_error(ExitCode::kBadData, {"file", "line 2", line},
                       [&] { (void)parse_tiktoken(std::string("YWI= 0\n") + line + "\n", "file"); });
}

TEST(Tiktoken, ranks_and_bytes_that_are_there_twice_or_missing_are_refused) {
  for (const char* lines : {"YQ== 0\nYg== 0\n", "YQ== 0\nYQ== 1\n"})
    test::expect_error(ExitCode::kBadData, {"file", "line 2", "of their own"},
                       [&] { (void)parse_tiktoken(lines, "file"); });
  for (const char* lines : {"YQ== 1\n", ""})
    test::expect_error(ExitCode::kBadData, {"file", "every rank"},
                       [&] { (void)parse_tiktoken(lines, "file"); });
}

TEST(Tiktoken, a_vocabulary_without_every_byte_is_refused) {
  test::expect_error(ExitCode::kBadData, {"file", "byte 0"}, [] { (void)Bpe({"a", "b", "ab"}, "file"); });
}

TEST(Tiktoken, ids_behind_the_vocabulary_have_the_names_that_the_settings_give_or_are_reserved) {
  const Tokenizer tokenizer = Tokenizer::load(kKimi);
  EXPECT_EQ(tokenizer.id_count(), 2256);
  EXPECT_EQ(tokenizer.id_of("[BOS]"), 2000);
  EXPECT_EQ(tokenizer.id_of("<|reserved_token_2004|>"), 2004);
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 2255);
  EXPECT_TRUE(tokenizer.is_special(2004));
  EXPECT_FALSE(tokenizer.is_special(2007));
  EXPECT_TRUE(tokenizer.frame_before().empty());
}

TEST(Tiktoken, settings_of_another_class_are_refused_since_the_pattern_is_its_own) {
  const test::TemporaryDirectory directory;
  fs::copy_file(kKimi / "tiktoken.model", directory / "tiktoken.model");
  const auto load = [&] { (void)Tokenizer::load(directory.path()); };
  test::expect_error(ExitCode::kBadData, {"tokenizer_class", "no such file", "TikTokenTokenizer"}, load);
  static_cast<void>(directory.write("tokenizer_config.json", R"({"tokenizer_class": "QWenTokenizer"})"));
  test::expect_error(ExitCode::kBadData, {"tokenizer_class", "QWenTokenizer", "TikTokenTokenizer"}, load);
}

}  // namespace
}  // namespace sluice::text
