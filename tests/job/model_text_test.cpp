#include "job/answers/model_text.hpp"

#include "base/text.hpp"
#include "corpus/json_row.hpp"
#include "support/expect_error.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

const std::filesystem::path kTokenizers = fixture_folder() / "tokenizers";

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer loaded = text::Tokenizer::load(kTokenizers / "qwen3");
  return loaded;
}

std::vector<std::int64_t> ids_of(const std::string& text) {
  const std::vector<text::TokenId> ids = tokenizer().encode(text);
  return {ids.begin(), ids.end()};
}

/// What came of each token, and at the end.
std::vector<std::string> pieces(const std::string& text, const std::vector<std::string>& stops) {
  AnswerText answer(tokenizer(), stops);
  std::vector<std::string> out;
  for (const std::int64_t id : ids_of(text)) {
    out.push_back(answer.add(id));
    if (answer.has_stopped()) return out;
  }
  out.push_back(answer.finish());
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

TEST(AnswerText, comes_whole_without_a_stop) {
  const std::string text = "Näher, 日本 🙂 – xyzzy\n";
  EXPECT_EQ(joined(pieces(text, {})), text);
  EXPECT_EQ(joined(pieces(text, {"xyzzz", "🙂🙂"})), text);
}

TEST(AnswerText, ends_before_the_first_stop_wherever_tokens_begin) {
  const std::string text = "one two three four five";
  for (const auto& [stop, before] : std::vector<std::pair<std::string, std::string>>{
           {"three", "one two "}, {"o th", "one tw"}, {"e t", "on"}, {"one", ""}}) {
    const std::vector<std::string> found = pieces(text, {"seven", stop});
    EXPECT_EQ(joined(found), before) << stop;
    EXPECT_EQ(answer_text(tokenizer(), {stop}, ids_of(text)), before);
    EXPECT_LT(found.size(), ids_of(text).size() + 1) << "it ends with " << stop;
  }
}

TEST(AnswerText, holds_back_what_may_become_a_stop_and_no_more) {
  AnswerText answer(tokenizer(), {"\n\nEnd"});
  std::string so_far;
  for (const std::int64_t id : ids_of("a\n\nEnough")) so_far += answer.add(id);
  EXPECT_EQ(so_far, "a\n\nEnough");
}

TEST(AnswerText, never_holds_half_a_character) {
  for (const std::string& piece : pieces("é日🙂 𝔘", {"🙂 x"}))
    EXPECT_EQ(valid_utf8_prefix(piece), piece.size());
}

TEST(EncodePrompts, texts_need_a_tokenizer_and_ids_do_not) {
  std::vector<Prompt> prompts{{"0", "one two"}, {"1", "", {5, 6}}};
  encode_prompts(prompts, &tokenizer(), "m");
  EXPECT_EQ(prompts[0].tokens, ids_of("one two"));
  EXPECT_EQ(prompts[1].tokens, (std::vector<std::int64_t>{5, 6}));
  std::vector<Prompt> ids{{"0", "", {5, 6}}}, texts{{"0", "one"}};
  encode_prompts(ids, nullptr, "m");
  test::expect_error(ExitCode::kBadData, {"m: found no tokenizer.json"},
                     [&] { encode_prompts(texts, nullptr, "m"); });
}

TEST(EncodePrompts, lays_out_a_chat_with_tools_by_the_template_for_them) {
  const test::TemporaryDirectory model;
  std::filesystem::copy(kTokenizers / "qwen3" / "tokenizer.json", model / "tokenizer.json");
  std::filesystem::create_directory(model / "additional_chat_templates");
  static_cast<void>(model.write("additional_chat_templates/tool_use.jinja",
                                "{{ tools[0].name }}: {{ messages[0].content }}"));
  const auto asked = [](const std::string& row) {
    corpus::JsonRow read(row);
    Prompt prompt{"0"};
    prompt.conversation = corpus::read_asked(read);
    return std::vector<Prompt>{prompt};
  };
  std::vector<Prompt> with =
      asked(R"({"messages": [{"role": "user", "content": "a", "mood": 1}], "tools": [{"name": "f"}]})");
  encode_prompts(with, &tokenizer(), model.path(), PromptKind::kChat);
  EXPECT_EQ(with[0].tokens, ids_of("f: a"));
  EXPECT_EQ(with[0].unused, std::vector<std::string>{"messages.mood"});
  std::vector<Prompt> without = asked(R"({"messages": [{"role": "user", "content": "a"}]})");
  test::expect_error(ExitCode::kBadData, {"tool_use.jinja", "tools alone"},
                     [&] { encode_prompts(without, &tokenizer(), model.path(), PromptKind::kChat); });
}

TEST(FindTokenizer, is_null_where_there_is_none) {
  EXPECT_EQ(find_tokenizer(kTokenizers), nullptr);
  EXPECT_NE(find_tokenizer(kTokenizers / "qwen3"), nullptr);
}

}  // namespace
}  // namespace sluice
