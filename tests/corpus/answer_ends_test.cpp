// Answers that teach a model to stop, held against what transformers makes of templates that mark the ends.
#include "corpus/answer_ends.hpp"

#include "corpus/chat_ml.hpp"
#include "corpus/document_encoder.hpp"
#include "corpus/fixture_tokenizer.hpp"
#include "support/source_folder.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using TokenIds = std::vector<text::TokenId>;

const fs::path kChats = fixture_folder() / "chats";

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TokenIds ids_of(const text::Tokenizer& tokenizer, const std::vector<std::string>& tokens) {
  TokenIds ids;
  for (const std::string& token : tokens) ids.push_back(tokenizer.id_of(token).value());
  return ids;
}

EncodingOptions options_of(const std::string& chat_template, Loss loss, const TokenIds& ends) {
  EncodingOptions options{.row = {}, .loss = loss, .chat_template = {}};
  options.chat_template.name = "chat_template.jinja";
  options.chat_template.text = chat_template;
  options.answer_ends = [ends] { return ends; };
  return options;
}

/// A case of ends.json with its tokenizer.
class Case {
 public:
  explicit Case(const Json& known) : known_(known) {
    fs::copy_file(fixture_folder() / "tokenizers/qwen3/tokenizer.json", directory_ / "tokenizer.json");
    const Json tokens = {{"extra_special_tokens", known["tokens"]}};
    static_cast<void>(directory_.write("tokenizer_config.json", tokens.dump()));
    testing::internal::CaptureStderr();  // it tells of the tokens that it adds
    tokenizer_.emplace(text::Tokenizer::load(directory_.path()));
    static_cast<void>(testing::internal::GetCapturedStderr());
  }

  /// Holds the tokens and the masks of the first conversations against `expected`, a mask for each.
  void expect(std::size_t most, Loss loss, const std::vector<std::vector<std::int32_t>>& expected) const {
    const std::string text = known_.contains("file") ? content_of(kChats / known_["file"].get<std::string>())
                                                     : known_["template"].get<std::string>();
    const EncodingOptions options =
        options_of(text, loss, ids_of(*tokenizer_, known_["ends"].get<std::vector<std::string>>()));
    DocumentEncoder encoder(*tokenizer_, options);
    for (std::size_t i = 0; i < std::min(most, expected.size()); ++i) {
      const EncodedDocumentPiece piece =
          encoder.encode({.bytes = known_["conversations"][i].dump(), .is_json = true});
      EXPECT_EQ(piece.fault, "") << known_["name"] << ", " << i;
      EXPECT_EQ(piece.ids, known_["rows"][i]["ids"].get<TokenIds>()) << known_["name"] << ", " << i;
      EXPECT_EQ(piece.mask, expected[i]) << known_["name"] << ", " << i;
      EXPECT_EQ(piece.answers.endless, 0) << known_["name"] << ", " << i;
    }
  }

  /// Masks that are 1 in the ranges of answers from `first_of(number of ranges)` on.
  template <class First>
  [[nodiscard]] std::vector<std::vector<std::int32_t>> masks(First first_of) const {
    std::vector<std::vector<std::int32_t>> masks;
    for (const Json& row : known_["rows"]) {
      std::vector<std::int32_t>& mask = masks.emplace_back(row["ids"].size(), 0);
      const auto ranges = row["answers"].get<std::vector<std::pair<std::size_t, std::size_t>>>();
      for (std::size_t i = first_of(ranges.size()); i < ranges.size(); ++i)
        std::fill(mask.begin() + static_cast<std::ptrdiff_t>(ranges[i].first),
                  mask.begin() + static_cast<std::ptrdiff_t>(ranges[i].second), 1);
    }
    return masks;
  }

 private:
  Json known_;
  test::TemporaryDirectory directory_;
  std::optional<text::Tokenizer> tokenizer_;
};

void for_each_case(const std::function<void(const Case&)>& visit) {
  for (const Json& known : Json::parse(content_of(kChats / "ends.json"))) visit(Case(known));
}

TEST(AnswerEnds, that_a_template_puts_behind_answers_or_before_a_users_message_are_learnt) {
  for_each_case([](const Case& known) {
    known.expect(100, Loss::kAssistant, known.masks([](std::size_t) { return std::size_t{0}; }));
  });
}

TEST(AnswerEnds, are_learnt_of_the_last_answer_by_loss_last) {
  for_each_case([](const Case& known) {
    known.expect(1, Loss::kLast, known.masks([](std::size_t count) { return count - 1; }));
  });
}

TEST(AnswerEnds, are_added_where_everything_counts) {
  for_each_case([](const Case& known) {
    std::vector<std::vector<std::int32_t>> masks = known.masks([](std::size_t count) { return count; });
    for (std::vector<std::int32_t>& mask : masks) mask.assign(mask.size(), 1);
    known.expect(2, Loss::kAll, masks);
  });
}

const std::string kTwoRounds =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
    R"({"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";

EncodedDocumentPiece encoded(const std::string& chat_template, const std::vector<std::string>& ends,
                             Loss loss = Loss::kAssistant, const std::string& row = kTwoRounds) {
  const text::Tokenizer& tokenizer = test::fixture_tokenizer();
  const EncodingOptions options = options_of(chat_template, loss, ids_of(tokenizer, ends));
  const EncodedDocumentPiece piece =
      DocumentEncoder(tokenizer, options).encode({.bytes = row, .is_json = true});
  EXPECT_EQ(piece.fault, "");
  return piece;
}

std::string written_by(const TokenIds& ids) {
  return test::fixture_tokenizer().decode(ids, text::Specials::kKeep);
}

TEST(AnswerEnds, that_answers_have_already_change_nothing) {
  const EncodedDocumentPiece before = encoded(test::kChatMl, {});
  const EncodedDocumentPiece piece = encoded(test::kChatMl, {"<|im_end|>", "<|im_start|>"});
  EXPECT_EQ(piece.ids, before.ids);
  EXPECT_EQ(piece.mask, before.mask);
  EXPECT_EQ(piece.answers.all, 2);
  EXPECT_EQ(piece.answers.endless, 0);
}

TEST(AnswerEnds, that_no_template_writes_are_missed_and_nothing_changes) {
  const EncodedDocumentPiece before = encoded(test::kChatMl, {});
  for (const Loss loss : {Loss::kAssistant, Loss::kLast, Loss::kAll}) {
    const EncodedDocumentPiece piece = encoded(test::kChatMl, {"<|endoftext|>"}, loss);
    EXPECT_EQ(piece.ids, before.ids);
    EXPECT_EQ(piece.answers.all, loss == Loss::kLast ? 1 : 2);
    EXPECT_EQ(piece.answers.endless, piece.answers.all);
  }
  EXPECT_EQ(encoded(test::kChatMl, {}).answers.endless, 2);
}

TEST(AnswerEnds, are_not_added_behind_an_answer_that_is_not_learnt_or_not_the_last_message) {
  const std::string text =
      R"({% for m in messages %}{% if m.role == 'user' %}<|im_end|>{{ m.content }}{% else %}{% generation %})"
      R"({{ m.content }}{% endgeneration %}{% endif %}{% endfor %})";
  EXPECT_EQ(written_by(encoded(text, {"<|im_end|>"}).ids), "<|im_end|>ab<|im_end|>cd<|im_end|>");
  std::string untrained = kTwoRounds;
  untrained.replace(untrained.find("\"d\""), 3, "\"d\", \"train\": false");
  EXPECT_EQ(written_by(encoded(text, {"<|im_end|>"}, Loss::kAll, untrained).ids), "<|im_end|>ab<|im_end|>cd");
  EXPECT_EQ(written_by(encoded(text, {"<|im_end|>"}, Loss::kAll,
                               R"({"messages": [{"role": "user", "content": "a"}]})")
                           .ids),
            "<|im_end|>a");
}

TEST(AnswerEnds, of_an_answer_that_is_marked_part_by_part_stand_behind_the_last_part) {
  const std::string text =
      R"({% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<think>{% endgeneration %} )"
      R"({% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}{% endif %})"
      R"({% endfor %})";
  const EncodedDocumentPiece piece = encoded(text, {"<|im_end|>"});
  EXPECT_EQ(piece.answers.all, 2);
  EXPECT_EQ(piece.answers.endless, 0);
}

TEST(AnswerEnds, are_found_at_the_end_of_a_text_and_at_the_front_of_what_follows) {
  const text::Tokenizer& tokenizer = test::fixture_tokenizer();
  const AnswerEnds ends(tokenizer, ids_of(tokenizer, {"<|im_end|>"}));
  EXPECT_TRUE(ends.is_ended("b<|im_end|>"));
  EXPECT_TRUE(ends.is_ended("b<|im_end|>\n"));
  EXPECT_TRUE(ends.is_ended("b<|im_end|>\n<|endoftext|>\n"));
  EXPECT_FALSE(ends.is_ended("b<|endoftext|>"));
  EXPECT_FALSE(ends.is_ended("<|im_end|>b"));
  EXPECT_FALSE(ends.is_ended(""));
  EXPECT_EQ(ends.leading_bytes(" \n<|im_end|>\nb"), 12U);
  EXPECT_EQ(ends.leading_bytes("b<|im_end|>"), 0U);
}

}  // namespace
}  // namespace sluice::corpus
