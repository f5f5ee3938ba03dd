#include "corpus/model_tokens.hpp"

#include "corpus/fixture_tokenizer.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <string>

namespace sluice::corpus {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

class ModelTokens : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) { static_cast<void>(directory_.write(name, text)); }
  text::TokenId end(const std::string& wanted = "") {
    return read_end_token(directory_.path(), test::fixture_tokenizer(), wanted);
  }
  static text::TokenId id(const char* token) { return *test::fixture_tokenizer().id_of(token); }
  TemporaryDirectory directory_;
};

TEST_F(ModelTokens, the_end_token_is_the_wanted_one_else_that_of_tokenizer_config_else_that_of_config) {
  write("config.json", R"({"eos_token_id": [7, 8]})");
  EXPECT_EQ(end(), 7);
  write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}})");
  EXPECT_EQ(end(), id("<|im_end|>"));
  EXPECT_EQ(end("<|endoftext|>"), id("<|endoftext|>"));
  expect_error(ExitCode::kUsage, {"no such token"}, [&] { end("no such token"); });
  write("tokenizer_config.json", R"({"eos_token": "<none>"})");
  expect_error(ExitCode::kBadData, {"eos_token is '<none>'"}, [&] { end(); });
}

TEST_F(ModelTokens, the_end_token_may_be_named_by_special_tokens_map_alone) {
  write("config.json", R"({"eos_token_id": 7})");
  write("special_tokens_map.json", R"({"eos_token": {"content": "<|im_end|>"}, "bos_token": "<s>"})");
  EXPECT_EQ(end(), id("<|im_end|>"));
  EXPECT_EQ(read_chat_template(directory_.path()).tokens.at("bos_token"), "<s>");
  write("special_tokens_map.json", R"({"eos_token": "<none>"})");
  expect_error(ExitCode::kBadData, {"special_tokens_map.json", "eos_token is '<none>'"}, [&] { end(); });
}

TEST_F(ModelTokens, answers_end_with_all_end_tokens_that_any_file_names) {
  const auto ends = [&] { return read_answer_ends(directory_.path(), test::fixture_tokenizer()); };
  EXPECT_THAT(ends(), testing::IsEmpty());
  write("config.json", R"({"text_config": {"eos_token_id": 7}})");
  write("generation_config.json", R"({"eos_token_id": [8, -1, 9]})");
  write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  EXPECT_THAT(ends(), testing::UnorderedElementsAre(7, 8, 9, id("<|im_end|>")));
  write("generation_config.json", R"({"eos_token_id": "<|im_end|>"})");
  EXPECT_THAT(ends(), testing::UnorderedElementsAre(7, id("<|im_end|>"))) << "a broken file has no say";
}

TEST_F(ModelTokens, a_wanted_end_token_that_is_none_is_told_which_there_are) {
  expect_error(ExitCode::kUsage, {"--eos", "'whale song'", "<|endoftext|>"}, [&] { end("whale song"); });
}

TEST_F(ModelTokens, null_and_numbers_without_a_value_count_only_where_they_are_read) {
  write("config.json",
        R"({"x": NaN, "eos_token_id": null, "text_config": {"eos_token_id": 5, "vocab_size": 9}})");
  write("tokenizer_config.json", R"({"model_max_length": Infinity, "eos_token": null})");
  EXPECT_EQ(end(), 5);
  EXPECT_EQ(read_vocab_size(directory_.path()), 9);
  write("config.json", R"({"eos_token_id": NaN})");
  expect_error(ExitCode::kBadData, {"config.json", "eos_token_id", "NaN"}, [&] { end(); });
}

TEST_F(ModelTokens, no_end_token_known_is_an_error_that_says_where_one_was_looked_for) {
  write("config.json", "{}");
  expect_error(ExitCode::kBadData, {"tokenizer_config.json", "eos_token_id", "--eos"}, [&] { end(); });
}

TEST_F(ModelTokens, vocab_size_may_lie_in_the_part_of_the_text_model) {
  write("config.json", R"({"text_config": {"vocab_size": 77}})");
  EXPECT_EQ(read_vocab_size(directory_.path()), 77);
}

TEST_F(ModelTokens, the_chat_template_is_a_file_of_its_own_or_the_default_one_of_tokenizer_config) {
  EXPECT_EQ(read_chat_template(directory_.path()).text, "");
  write("tokenizer_config.json",
        R"({"bos_token": "<s>", "chat_template": [{"name": "rag", "template": "r"}, {"name": "default", )"
        R"("template": "d"}]})");
  const ChatTemplate named = read_chat_template(directory_.path());
  EXPECT_EQ(named.text, "d");
  EXPECT_EQ(named.tokens.at("bos_token"), "<s>");
  EXPECT_EQ(named.tools_text, "");
  write("chat_template.jinja", "file");
  EXPECT_EQ(read_chat_template(directory_.path()).text, "file");
  write("other.jinja", "other");
  const ChatTemplate other = read_chat_template(directory_.path(), directory_ / "other.jinja");
  EXPECT_EQ(other.text, "other");
  EXPECT_EQ(other.tokens.at("bos_token"), "<s>");
}

TEST_F(ModelTokens, a_chat_template_for_tools_is_the_one_named_so) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(read_chat_template(directory_.path()).text, "d");
  EXPECT_EQ(read_chat_template(directory_.path()).tools_text, "t");
  std::filesystem::create_directory(directory_ / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "file");
  EXPECT_EQ(read_chat_template(directory_.path()).text, "");  // files count alone, as in transformers
  EXPECT_EQ(read_chat_template(directory_.path()).tools_text, "file");
  EXPECT_THAT(read_chat_template(directory_.path()).tools_name, testing::HasSubstr("tool_use.jinja"));
}

TEST_F(ModelTokens, named_chat_templates_without_a_default_one_are_refused) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "t"}]})");
  expect_error(ExitCode::kBadData, {"tokenizer_config.json", "chat_template", "default"},
               [&] { static_cast<void>(read_chat_template(directory_.path())); });
}

}  // namespace
}  // namespace sluice::corpus
