#include "corpus/text_survey.hpp"

#include "corpus/chat_ml.hpp"
#include "corpus/fixture_tokenizer.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>

#include <string>

namespace sluice::corpus {
namespace {

using test::expect_error;
using test::TemporaryDirectory;

class TextSurveys : public testing::Test {
 protected:
  TextSurveys() {
    static_cast<void>(model_.write("chat_template.jinja", test::kChatMl));
    static_cast<void>(model_.write("config.json", R"({"eos_token_id": 7})"));
  }
  TextSurvey survey(const std::string& name, const std::string& content) {
    return survey_text(model_.write(name, content), model_.path(), test::fixture_tokenizer());
  }
  TemporaryDirectory model_;
};

const std::string kRow = R"({"prompt": "a", "completion": "b"})"
                         "\n";

TEST_F(TextSurveys, count_answers_that_teach_no_end_in_the_front) {
  const TextSurvey whole = survey("a.jsonl", kRow + kRow);
  EXPECT_TRUE(whole.is_whole);
  EXPECT_EQ(whole.answers.all, 2);
  EXPECT_EQ(whole.answers.endless, 2);
  std::string many;
  while (many.size() < 3 << 20) many += kRow;
  const TextSurvey front = survey("a.jsonl", many);
  EXPECT_FALSE(front.is_whole);
  EXPECT_GT(front.answers.all, 1000);
  EXPECT_EQ(survey("a.txt", "whale").answers.all, 0);
}

TEST_F(TextSurveys, refuse_what_gives_no_tokens) {
  for (const std::string& blank : {std::string(), std::string("\n \n"), std::string(2 << 20, '\n')})
    expect_error(ExitCode::kBadData, {"a.txt", "no document with a token"},
                 [&] { static_cast<void>(survey("a.txt", blank)); });
  expect_error(ExitCode::kBadData, {"a.jsonl", "no document with a token"},
               [&] { static_cast<void>(survey("a.jsonl", "{\"text\": \"\"}\n")); });
  expect_error(ExitCode::kBadData, {"a.jsonl:2: ", "'text'"},
               [&] { static_cast<void>(survey("a.jsonl", kRow + "{\"text\": 7}\n")); });
}

}  // namespace
}  // namespace sluice::corpus
