// Ids and text of tests/fixtures/tokenizers, made by the tokenizers library, or by tiktoken
// (tests/fixtures/make_tokenizers.py).
#include "support/source_folder.hpp"
#include "text/tokenizer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace sluice::text {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, Specials specials) {
  StreamDecoder decoder(tokenizer, specials);
  std::string text;
  for (const TokenId id : ids) {
    const std::string part = decoder.add(id);
    EXPECT_NO_THROW((void)json(part).dump()) << "half a character";  // which refuses what is no UTF-8
    text += part;
  }
  return text + decoder.finish();
}

class Family : public testing::TestWithParam<const char*> {
 protected:
  const std::filesystem::path all_ = fixture_folder() / "tokenizers";
  const std::filesystem::path directory_ = all_ / GetParam();
  const Tokenizer tokenizer_ = Tokenizer::load(directory_);
};

TEST_P(Family, ids_and_text_are_those_of_the_library) {
  const std::vector<json> texts = lines_of(all_ / "corpus.txt");
  const std::vector<json> expected = lines_of(directory_ / "expected.jsonl");
  ASSERT_EQ(texts.size(), expected.size());
  ASSERT_GT(texts.size(), 30U);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto ids = tokenizer_.encode(texts[i].get<std::string>());
    EXPECT_EQ(ids, expected[i]["ids"].get<std::vector<TokenId>>()) << texts[i];
    EXPECT_EQ(tokenizer_.decode(ids), expected[i]["text"].get<std::string>());
    EXPECT_EQ(tokenizer_.decode(ids, Specials::kKeep), expected[i]["all"].get<std::string>());
    EXPECT_EQ(streamed(tokenizer_, ids, Specials::kLeaveOut), expected[i]["text"].get<std::string>());
  }
}

TEST_P(Family, a_text_that_is_cut_has_the_same_tokens) {
  // A pattern that may look anywhere; normalizers that take away blanks at the ends.
  if (std::set<std::string>{"flags", "compatible", "decomposed", "kimi"}.contains(GetParam())) {
    EXPECT_EQ(tokenizer_.last_cut("one\ntwo\nthree"), 0U);
    return;
  }
  Encoder encoder(tokenizer_);
  const std::vector<std::string> texts = {
      "one\ntwo three\n4 five's\n6seven\n\nx and so on", "  a\nb <|im_end|>c\nd\u0301 e\n1 2 \n3",
      "a\r\nb\r\n\r\nc\r\nd and\r\nmore", "\u3002\n\u7b2c\u4e00\n\u4e2d \u3000\n\u6587 \u4e2d\n"};
  std::size_t cuts = 0;
  for (const std::string& text : texts)
    for (std::size_t end = text.size(); end > 0; --end) {
      const std::size_t cut = tokenizer_.last_cut(std::string_view(text).substr(0, end));
      if (cut == 0) continue;
      ++cuts;
      std::vector<TokenId> whole;
      std::vector<TokenId> parts;
      encoder.append(text, whole);
      encoder.append(std::string_view(text).substr(0, cut), parts);
      encoder.append(std::string_view(text).substr(cut), parts, Continues::kYes);
      EXPECT_EQ(parts, whole) << text << "\ncut at " << cut;
    }
  EXPECT_GT(cuts, 20U);
}

INSTANTIATE_TEST_SUITE_P(, Family,
                         testing::Values("qwen3", "qwen3_5", "llama3", "mixtral", "olmoe", "gpt2", "flags",
                                         "compatible", "decomposed", "compatible_parts", "kimi"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace sluice::text
