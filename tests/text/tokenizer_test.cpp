#include "text/tokenizer.hpp"

#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"
#include "text/json_node.hpp"
#include "text/token_decoder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sluice::text {
namespace {

using nlohmann::json;
using test::expect_error;

json fixture(const std::string& family) {
  std::ifstream file(fixture_folder() / "tokenizers" / family / "tokenizer.json");
  return json::parse(file);
}

Tokenizer tokenizer_of(const json& document) { return Tokenizer::parse(document.dump(), "t.json"); }

void expect_refused(const json& document, const std::vector<std::string>& parts) {
  expect_error(ExitCode::kBadData, parts, [&] { (void)tokenizer_of(document); });
}

TEST(TokenizerFile, what_is_not_understood_is_refused_by_name) {
  json changed = fixture("qwen3");
  changed["normalizer"] = {{"type", "StripAccents"}};
  expect_refused(changed, {"t.json: normalizer", "type", "StripAccents", "NFC"});
  changed = fixture("qwen3");
  changed["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  expect_refused(changed, {"pre_tokenizer", "BertPreTokenizer", "Split"});
  changed = fixture("qwen3");
  changed["model"]["type"] = "Unigram";
  expect_refused(changed, {"model", "Unigram", "BPE"});
  changed = fixture("qwen3");
  changed["model"]["dropout"] = 0.1;
  expect_refused(changed, {"dropout", "0.1"});
  changed = fixture("qwen3");
  changed["post_processor"] = {{"type", "BertProcessing"}};
  expect_refused(changed, {"post_processor", "BertProcessing", "TemplateProcessing"});
  changed = fixture("qwen3");
  changed["decoder"] = {{"type", "WordPiece"}};
  expect_refused(changed, {"decoder", "WordPiece", "ByteLevel"});
  changed["decoder"] = nullptr;
  expect_refused(changed, {"decoder", "null"});
}

TEST(TokenizerFile, broken_content_is_one_clear_error) {
  expect_error(ExitCode::kBadData, {"t.json", "not valid JSON", "cut short"},
               [] { (void)Tokenizer::parse(R"({"model": {)", "t.json"); });
  expect_error(ExitCode::kBadData, {"t.json", "array"}, [] { (void)Tokenizer::parse("[]", "t.json"); });
  expect_error(ExitCode::kBadData, {"deeper than 64"},
               [] { (void)Tokenizer::parse(R"({"a":)" + std::string(70, '['), "t.json"); });
  json changed = fixture("gpt2");
  changed["model"]["merges"][3] = {"nowhere", "q"};
  expect_refused(changed, {"merges[3]", "nowhereq", "not in the vocabulary"});
  changed["model"]["merges"][3] = "three words here";
  expect_refused(changed, {"merges[3]", "two tokens"});
  changed = fixture("gpt2");
  changed["model"]["vocab"]["a"] = 1e9;
  expect_refused(changed, {"vocab", "a", "token id"});
  changed["model"]["vocab"]["a"] = changed["model"]["vocab"]["b"];
  expect_refused(changed, {"an id of its own"});
  changed = fixture("gpt2");
  changed["added_tokens"][0]["id"] = 3;
  expect_refused(changed, {"<|endoftext|>", "id 3"});
}

TEST(TokenizerFile, a_missing_file_says_which) {
  const test::TemporaryDirectory directory;
  expect_error(ExitCode::kBadData, {"tokenizer.json is missing"},
               [&] { (void)Tokenizer::load(directory.path()); });
}

TEST(Tokenizer, tokens_are_found_by_how_they_are_written) {
  const Tokenizer tokenizer = tokenizer_of(fixture("qwen3"));
  const auto end = tokenizer.id_of("<|im_end|>");
  ASSERT_TRUE(end);
  EXPECT_TRUE(tokenizer.is_special(*end));
  EXPECT_EQ(tokenizer.encode("<|im_end|>"), std::vector<TokenId>{*end});
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.id_of("<think>")));
  EXPECT_FALSE(tokenizer.id_of("no such token"));
  EXPECT_LT(*end, tokenizer.id_count());
}

TEST(Tokenizer, a_frame_is_added_where_it_is_wanted) {
  const Tokenizer tokenizer = tokenizer_of(fixture("llama3"));
  std::vector<TokenId> framed = tokenizer.frame_before();
  EXPECT_EQ(framed, std::vector<TokenId>{*tokenizer.id_of("<|begin_of_text|>")});
  const std::vector<TokenId> bare = tokenizer.encode("hello", Frame::kLeaveOut);
  framed.insert(framed.end(), bare.begin(), bare.end());
  EXPECT_EQ(tokenizer.encode("hello"), framed);
}

TEST(Tokenizer, bytes_that_are_no_text_are_read_as_the_replacement_character) {
  const Tokenizer tokenizer = tokenizer_of(fixture("qwen3"));
  Encoder encoder(tokenizer);
  std::vector<TokenId> ids;
  EXPECT_EQ(encoder.append("a\xff\xe2\x82z\xf0\x9f", ids), 3);
  EXPECT_EQ(tokenizer.decode(ids), "a\ufffd\ufffdz\ufffd");
}

TEST(Tokenizer, a_stream_waits_for_the_rest_of_a_character) {
  const Tokenizer tokenizer = tokenizer_of(fixture("qwen3"));
  const std::vector<TokenId> ids = tokenizer.encode("🜁");
  ASSERT_GT(ids.size(), 1U);
  StreamDecoder decoder(tokenizer);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(decoder.add(ids[i]), "");
  EXPECT_EQ(decoder.add(ids.back()), "🜁");
  EXPECT_EQ(decoder.add(ids[0]), "");
  EXPECT_EQ(decoder.finish(), "\ufffd");
  EXPECT_EQ(decoder.add(1 << 23), "") << "no such id";
  EXPECT_EQ(decoder.add(-1), "");
}

TEST(Tokenizer, a_metaspace_decoder_drops_the_first_blank_unless_it_says_otherwise) {
  const auto joined = [](const std::string& keys) {
    const DecoderRules rules = DecoderRules::read(
        JsonNode::parse(R"({"type": "Metaspace", "replacement": "\u2581")" + keys + "}", "t.json"));
    TokenTextJoiner joiner(rules);
    std::string text;
    for (const char* token : {"\u2581whale", "\u2581ship"}) text += joiner.add(token);
    return text + joiner.finish();
  };
  EXPECT_EQ(joined(""), "whale ship");
  EXPECT_EQ(joined(R"(, "add_prefix_space": true)"), "whale ship");
  EXPECT_EQ(joined(R"(, "add_prefix_space": false)"), " whale ship");
  EXPECT_EQ(joined(R"(, "prepend_scheme": "first")"), "whale ship");
  EXPECT_EQ(joined(R"(, "prepend_scheme": "never")"), " whale ship");
}

TEST(Tokenizer, a_word_of_a_million_letters_takes_no_quadratic_time) {
  for (const char* family : {"gpt2", "mixtral"}) {
    const Tokenizer tokenizer = tokenizer_of(fixture(family));
    for (const std::string letter : {"a", " ", "\n", "é"}) {
      std::string text;
      while (text.size() < 1'000'000) text += letter;
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << family;
    }
  }
}

TEST(Tokenizer, a_hostile_pattern_loses_no_text) {
  json document = fixture("gpt2");
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", "(?:a+)+(?:a+)+b"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const Tokenizer tokenizer = tokenizer_of(document);
  const std::string text = "x" + std::string(5000, 'a') + "c and more";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Encoder, marks_are_those_of_tokens_that_touch_a_span) {
  for (const char* family : {"qwen3", "llama3", "mixtral", "olmoe"}) {
    const Tokenizer tokenizer = tokenizer_of(fixture(family));
    // é is written as two characters, which normal form C joins for those families that want it.
    const std::string text = "<|im_start|>user e\u0301 said this<|im_end|> and here is the rest";
    const std::size_t begin = text.find(" and");
    std::vector<TokenId> plain;
    std::vector<TokenId> ids;
    std::vector<std::int32_t> marks;
    Encoder encoder(tokenizer);
    encoder.append(text, plain);
    const std::vector<std::pair<std::size_t, std::size_t>> spans = {{begin, text.size()}};
    encoder.append_marked(text, spans, ids, marks);
    EXPECT_EQ(ids, plain);
    ASSERT_EQ(marks.size(), ids.size());
    std::vector<TokenId> marked;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (marks[i] == 1) marked.push_back(ids[i]);
    const std::string said = tokenizer.decode(marked, Specials::kKeep);
    EXPECT_TRUE(said == " and here is the rest" || said == "and here is the rest") << family << ": " << said;
  }
}

}  // namespace
}  // namespace sluice::text
