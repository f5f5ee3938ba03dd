// What assistants say by templates that do not mark it, held against the same templates with tags put in by
// hand.
#include "corpus/document_encoder.hpp"
#include "corpus/model_tokens.hpp"
#include "support/source_folder.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::corpus {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;

const fs::path kChats = fixture_folder() / "chats";

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  EXPECT_FALSE(lines.empty()) << path;
  return lines;
}

/// Ranges of tokens whose mask is 1.
Ranges ranges_of(const std::vector<std::int32_t>& mask) {
  Ranges ranges;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    if (ranges.empty() || ranges.back().second != i) ranges.emplace_back(i, i);
    ranges.back().second = i + 1;
  }
  return ranges;
}

/// The line with its first answer marked as one that is not to be learnt.
std::string without_first_answer(const std::string& line) {
  Json document = Json::parse(line);
  for (Json& message : document["messages"])
    if (message["role"] == "assistant") {
      message["train"] = false;
      break;
    }
  return document.dump();
}

Ranges behind_first(Ranges ranges) {
  ranges.erase(ranges.begin());
  return ranges;
}

/// What lies between ranges of so many tokens.
Ranges other_than(const Ranges& ranges, std::size_t count) {
  std::vector<std::int32_t> mask(count, 1);
  for (const auto& [begin, end] : ranges)
    for (std::size_t i = begin; i < end; ++i) mask[i] = 0;
  return ranges_of(mask);
}

class UnmarkedAnswers : public testing::TestWithParam<std::string> {
 protected:
  UnmarkedAnswers()
      : tokenizer_(
            text::Tokenizer::load(fixture_folder() / "tokenizers" / lines_of(directory() / "family")[0])) {}
  static fs::path directory() { return kChats / GetParam(); }

  /// Holds the first conversations against the ranges that `expected` makes of the answers' and the number of
  /// tokens.
  void expect_ranges(std::size_t most, Loss loss, const std::function<std::string(const std::string&)>& line,
                     const std::function<Ranges(const Ranges&, std::size_t)>& expected) const {
    const EncodingOptions options{
        .row = {},
        .loss = loss,
        .chat_template = read_chat_template(directory(), directory() / "plain.jinja"),
        .answer_ends = [this] { return read_answer_ends(directory(), tokenizer_); }};
    DocumentEncoder encoder(tokenizer_, options);
    const std::vector<std::string> conversations = lines_of(kChats / "turns.jsonl");
    const std::vector<std::string> wanted = lines_of(directory() / "tagged.jsonl");
    ASSERT_EQ(conversations.size(), wanted.size());
    for (std::size_t i = 0; i < std::min(most, wanted.size()); ++i) {
      const Json row = Json::parse(wanted[i]);
      const EncodedDocumentPiece piece = encoder.encode({.bytes = line(conversations[i]), .is_json = true});
      EXPECT_EQ(piece.fault, "") << "line " << i + 1;
      EXPECT_EQ(piece.answers.endless, 0) << "line " << i + 1;
      EXPECT_EQ(piece.ids, row["ids"].get<std::vector<text::TokenId>>()) << "line " << i + 1;
      EXPECT_EQ(ranges_of(piece.mask), expected(row["answers"].get<Ranges>(), piece.ids.size()))
          << "line " << i + 1;
    }
  }
  static std::string as_it_is(const std::string& line) { return line; }

  text::Tokenizer tokenizer_;
};

TEST_P(UnmarkedAnswers, are_those_that_tags_put_in_by_hand_mark) {
  expect_ranges(1000, Loss::kAssistant, as_it_is, [](const Ranges& answers, std::size_t) { return answers; });
}

TEST_P(UnmarkedAnswers, but_the_last_do_not_count_by_loss_last) {
  expect_ranges(6, Loss::kLast, as_it_is,
                [](const Ranges& answers, std::size_t) { return Ranges{answers.back()}; });
}

TEST_P(UnmarkedAnswers, that_are_not_to_be_learnt_do_not_count) {
  expect_ranges(6, Loss::kAssistant, without_first_answer,
                [](const Ranges& answers, std::size_t) { return behind_first(answers); });
  expect_ranges(6, Loss::kAll, without_first_answer, [](const Ranges& answers, std::size_t count) {
    return other_than({answers.front()}, count);
  });
}

INSTANTIATE_TEST_SUITE_P(Templates, UnmarkedAnswers, testing::Values("qwen3", "qwen3_5"),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace sluice::corpus
