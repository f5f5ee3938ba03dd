#include "text/named_tokens.hpp"

#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"
#include "text/tokenizer.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace sluice::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using test::expect_error;
using testing::AllOf;
using testing::HasSubstr;

const fs::path kFixtures = fixture_folder();

class NamedTokensTest : public testing::Test {
 protected:
  NamedTokensTest() {
    fs::copy_file(kFixtures / "tokenizers/qwen3/tokenizer.json", directory_ / "tokenizer.json");
  }
  void write(const char* name, const std::string& text) { static_cast<void>(directory_.write(name, text)); }
  /// What loading the tokenizer says.
  std::string told() {
    testing::internal::CaptureStderr();
    static_cast<void>(Tokenizer::load(directory_.path()));
    return testing::internal::GetCapturedStderr();
  }
  test::TemporaryDirectory directory_;
};

TEST(NamedTokens, have_the_ids_and_the_keys_that_transformers_gives_them) {
  std::ifstream file(kFixtures / "named_tokens.json");
  for (const Json& known : Json::parse(file)) {
    const test::TemporaryDirectory directory;
    fs::copy_file(kFixtures / "tokenizers/qwen3/tokenizer.json", directory / "tokenizer.json");
    for (const auto& [name, content] : known["files"].items())
      static_cast<void>(directory.write(name, content.dump()));
    const Tokenizer tokenizer = Tokenizer::load(directory.path());
    for (std::size_t i = 0; i < known["texts"].size(); ++i)
      EXPECT_EQ(tokenizer.encode(known["texts"][i].get<std::string>()),
                known["ids"][i].get<std::vector<TokenId>>())
          << known["name"] << ": " << known["texts"][i];
    std::map<std::string, std::string> special;
    for (const auto& [key, named] : read_special_tokens(directory.path())) special[key] = named.token.content;
    EXPECT_EQ(special, (known["special"].get<std::map<std::string, std::string>>())) << known["name"];
  }
}

TEST_F(NamedTokensTest, that_are_added_or_differ_are_told_with_their_file) {
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"2012": {"content": "<x>", "special": true}, "2000": {"content": "<|)"
        R"(endoftext|>", "special": true, "lstrip": true}}})");
  EXPECT_THAT(told(), AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("'<x>' (special) 2007"),
                            HasSubstr("2012"), HasSubstr("'<|endoftext|>' (special, lstrip)")));
}

TEST_F(NamedTokensTest, that_tokenizer_json_has_alike_change_nothing_and_are_not_told) {
  const Digest before = Tokenizer::load(directory_.path()).digest();
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"2000": {"content": "<|endoftext|>", "special": true, )"
        R"("normalized": false}}, "eos_token": "<|im_end|>", "bos_token": null, )"
        R"("extra_special_tokens": null, "model_max_length": 4096})");
  EXPECT_EQ(told(), "");
  EXPECT_EQ(Tokenizer::load(directory_.path()).digest(), before);
  write("tokenizer_config.json", R"({"extra_special_tokens": ["<x>"]})");
  EXPECT_NE(Tokenizer::load(directory_.path()).digest(), before);
}

TEST_F(NamedTokensTest, keys_that_are_of_no_use_are_told_once_a_file) {
  write("tokenizer_config.json", R"({"do_lower_case": true, "split_special_tokens": true, "legacy": null})");
  write("special_tokens_map.json", R"({"whatever": "<x>", "eos_token": "<|im_end|>"})");
  EXPECT_THAT(told(),
              AllOf(HasSubstr("tokenizer_config.json: "), HasSubstr(" do_lower_case, split_special_tokens"),
                    HasSubstr("special_tokens_map.json: "), HasSubstr(" whatever")));
}

TEST_F(NamedTokensTest, switches_that_are_off_are_not_told) {
  write("tokenizer_config.json", R"({"split_special_tokens": false, "do_lower_case": false})");
  EXPECT_EQ(told(), "");
}

TEST_F(NamedTokensTest, a_broken_file_is_one_clear_error) {
  const auto load = [&] { static_cast<void>(Tokenizer::load(directory_.path())); };
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})");
  expect_error(ExitCode::kBadData, {"tokenizer_config.json", "added_tokens_decoder", "token id"}, load);
  write("tokenizer_config.json", R"({"extra_special_tokens": [7]})");
  expect_error(ExitCode::kBadData, {"tokenizer_config.json", "extra_special_tokens", "7"}, load);
  write("tokenizer_config.json", "{}");
  write("added_tokens.json", R"({"<x>": "seven"})");
  expect_error(ExitCode::kBadData, {"added_tokens.json", "<x>", "seven"}, load);
}

}  // namespace
}  // namespace sluice::text
