#include "corpus/text_source.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace sluice::corpus {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

class TokenFileNames : public testing::Test {
 protected:
  std::string name() {
    return token_file_name(directory_ / "a.txt", directory_.path(), [&] { ++blocks_; }).name;
  }
  TemporaryDirectory directory_;
  int blocks_ = 0;
};

TEST_F(TokenFileNames, changes_with_the_text_and_with_all_that_says_how_it_becomes_tokens) {
  std::set<std::string> names;
  static_cast<void>(directory_.write("tokenizer.json", "{}"));
  static_cast<void>(directory_.write("a.txt", "whale"));
  names.insert(name());
  EXPECT_EQ(*names.begin(), name());
  EXPECT_THAT(name(), testing::MatchesRegex("[0-9a-f]+-[0-9a-f]+\\.h5"));
  static_cast<void>(directory_.write("model.safetensors", "weights say nothing of tokens"));
  EXPECT_EQ(*names.begin(), name());
  const std::size_t text = name().find('-');
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json"}) {
    static_cast<void>(directory_.write(file, "changed"));
    EXPECT_TRUE(names.insert(name()).second) << file;
    EXPECT_EQ(name().substr(0, text), names.begin()->substr(0, text)) << "of the same text";
  }
  static_cast<void>(directory_.write("a.txt", "whalf"));
  EXPECT_TRUE(names.insert(name()).second);
}

TEST_F(TokenFileNames, tells_rows_of_json_from_the_same_bytes_as_a_text) {
  static_cast<void>(directory_.write("tokenizer.json", "{}"));
  static_cast<void>(directory_.write("a.txt", "{\"text\": \"whale\"}\n"));
  static_cast<void>(directory_.write("a.jsonl", "{\"text\": \"whale\"}\n"));
  EXPECT_NE(name(), token_file_name(directory_ / "a.jsonl", directory_.path(), [] {}).name);
}

TEST_F(TokenFileNames, changes_with_the_end_tokens_of_answers_for_rows_of_json_alone) {
  static_cast<void>(directory_.write("tokenizer.json", "{}"));
  static_cast<void>(directory_.write("a.txt", "whale"));
  static_cast<void>(directory_.write("a.jsonl", "{\"text\": \"whale\"}\n"));
  const auto of_rows = [&] { return token_file_name(directory_ / "a.jsonl", directory_.path(), [] {}); };
  const std::string text = name(), rows = of_rows().name;
  static_cast<void>(directory_.write("generation_config.json", "{\"eos_token_id\": 1}"));
  EXPECT_EQ(name(), text);
  EXPECT_NE(of_rows().name, rows);
  EXPECT_EQ(of_rows().earlier, rows) << "as earlier versions called it";
}

TEST_F(TokenFileNames, changes_with_the_answers_that_are_taken_from_rows) {
  static_cast<void>(directory_.write("tokenizer.json", "{}"));
  static_cast<void>(directory_.write("a.jsonl", "{\"text\": \"whale\"}\n"));
  const auto named = [&](Answers answers) {
    return token_file_name(directory_ / "a.jsonl", directory_.path(), [] {}, {.answers = answers});
  };
  EXPECT_EQ(named(Answers::kChosen).name, named(Answers::kAuto).name);
  const std::set<std::string> names{named(Answers::kAuto).name, named(Answers::kRejected).name,
                                    named(Answers::kPair).name};
  EXPECT_EQ(names.size(), 3U);
  for (const Answers answers : {Answers::kRejected, Answers::kPair})
    EXPECT_EQ(named(answers).earlier, named(answers).name) << "no earlier version took the rejected answer";
}

TEST_F(TokenFileNames, looks_at_all_of_a_long_text_block_by_block) {
  static_cast<void>(directory_.write("tokenizer.json", "{}"));
  std::string text(9 << 20, 'a');
  static_cast<void>(directory_.write("a.txt", text));
  const std::string before = name();
  EXPECT_EQ(blocks_, 3);
  text.back() = 'b';
  static_cast<void>(directory_.write("a.txt", text));
  EXPECT_NE(name(), before);
}

TEST_F(TokenFileNames, needs_a_text_and_a_tokenizer) {
  static_cast<void>(directory_.write("a.txt", "whale"));
  expect_error(ExitCode::kBadData, {"tokenizer.json"}, [&] { static_cast<void>(name()); });
  static_cast<void>(directory_.write("tokenizer.json", "{}"));
  std::filesystem::remove(directory_ / "a.txt");
  expect_error(ExitCode::kBadData, {"a.txt"}, [&] { static_cast<void>(name()); });
}

}  // namespace
}  // namespace sluice::corpus
