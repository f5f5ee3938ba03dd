#include "job/answers/prompts.hpp"

#include "support/expect_error.hpp"
#include "support/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using testing::ElementsAre;

/// The end tokens of a model with such a config.json, and perhaps a generation_config.json.
std::vector<std::int64_t> ends_of(const std::string& config, const std::string& generation = "") {
  const TemporaryDirectory directory;
  static_cast<void>(directory.write("config.json", config));
  if (!generation.empty()) static_cast<void>(directory.write("generation_config.json", generation));
  return read_end_tokens(directory.path());
}

TEST(EndTokens, those_of_generation_config_count_before_those_of_config) {
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3})"), ElementsAre(3));
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3})", R"({"eos_token_id": [4, 5]})"), ElementsAre(4, 5));
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3})", R"({"eos_token_id": null})"), ElementsAre(3));
  EXPECT_THAT(ends_of("{}"), testing::IsEmpty());
}

TEST(EndTokens, null_beside_a_text_model_that_names_one_is_absent) {
  EXPECT_THAT(ends_of(R"({"eos_token_id": null, "text_config": {"eos_token_id": 7}})"), ElementsAre(7));
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3, "text_config": {"eos_token_id": 7}})"), ElementsAre(3));
  EXPECT_THAT(ends_of(R"({"eos_token_id": null, "text_config": {"eos_token_id": null}})"),
              testing::IsEmpty());
}

TEST(EndTokens, numbers_without_a_value_harm_only_where_they_are_read) {
  EXPECT_THAT(ends_of(R"({"eos_token_id": 3, "x": NaN})", R"({"temperature": Infinity})"), ElementsAre(3));
  expect_error(ExitCode::kBadData, {"generation_config.json", "eos_token_id", "NaN"},
               [] { ends_of(R"({"eos_token_id": 3})", R"({"eos_token_id": NaN})"); });
  expect_error(ExitCode::kBadData, {"config.json", "eos_token_id", "\"</s>\""},
               [] { ends_of(R"({"eos_token_id": "</s>"})"); });
}

TEST(Prompts, a_token_beyond_the_vocabulary_is_named_with_its_file_and_line) {
  const TemporaryDirectory directory;
  const std::filesystem::path file =
      directory.write("prompts.jsonl", "{\"tokens\": [1]}\n\n{\"id\": \"b\", \"tokens\": [1, 99]}\n");
  ModelConfig model;
  model.vocab_size = 50;
  expect_error(ExitCode::kBadData, {"prompts.jsonl:3", "\"b\"", "99", "49"},
               [&] { require_answerable(read_prompts(file), model, 100); });
  expect_error(ExitCode::kBadData, {"prompts.jsonl:3", "2 tokens"}, [&] {
    model.vocab_size = 100;
    require_answerable(read_prompts(file), model, 2);
  });
  expect_error(ExitCode::kBadData, {"prompt 0 "}, [&] {
    require_answerable({{"0", "", {100}}}, model, 100);
  });
}

/// "id: what it says" of each prompt.
std::vector<std::string> prompts_in(const std::string& content, const char* name) {
  const TemporaryDirectory directory;
  std::vector<std::string> all;
  for (const Prompt& prompt : read_prompts(directory.write(name, content))) {
    std::string said = prompt.text;
    if (prompt.conversation) said = prompt.conversation->messages->back()["content"].get<std::string>() + "?";
    for (const std::int64_t id : prompt.tokens) said += std::to_string(id) + ",";
    all.push_back(prompt.id + ": " + said);
  }
  return all;
}

TEST(Prompts, are_lines_of_text_or_rows_of_json_by_what_the_file_holds) {
  EXPECT_THAT(prompts_in("one\r\n\n{\"two\n", "a"), ElementsAre("0: one", "1: {\"two"));
  const std::string rows =
      R"({"prompt": "a", "messages": null}
{"id": "b", "tokens": [5, 6], "score": NaN}
{"messages": [{"role": "user", "content": "c"}]}
{"conversations": [{"from": "human", "value": "d"}], "system": "s"}
{"instruction": "e", "output": "f"}
{"prompt": "[{\"role\": \"user\", \"content\": \"g\"}]"}
{"prompt": "[\"h\"]"}
)";
  for (const char* name : {"a.jsonl", "a.json", "a"})
    EXPECT_THAT(prompts_in(rows, name),
                ElementsAre("0: a", "\"b\": 5,6,", "2: c?", "3: d?", "4: e?", "5: g?", "6: [\"h\"]"))
        << name;
  EXPECT_THAT(prompts_in("[{\"prompt\":\n\"a\"},\n{\"prompt\": \"b\"}]", "a.json"),
              ElementsAre("0: a", "1: b"));
  EXPECT_THAT(prompts_in("{\"prompt\": \"a\"}\n", "a.txt"), ElementsAre("0: {\"prompt\": \"a\"}"));
}

TEST(Prompts, that_cannot_be_used_say_where_they_are) {
  const auto refused = [](const std::string& content, const std::vector<std::string>& parts) {
    expect_error(ExitCode::kBadData, parts, [&] { static_cast<void>(prompts_in(content, "a.jsonl")); });
  };
  refused("{\"prompt\": \"a\"}\n{\"prompt\": 3}\n", {"a.jsonl:2: ", "'prompt'"});
  refused("{\"prompt\": \"a\", \"tokens\": [1]}\n", {"a.jsonl:1: expected one of"});
  refused("{\"prompt\": \"[{'role': 'user', 'content': 'a'}]\"}\n", {"a.jsonl:1: ", "'prompt'", "JSON"});
  refused("{\"tokens\": [1.5]}\n", {"a.jsonl:1: ", "array of token ids"});
  refused("{\"prompt\n", {"a.jsonl:1: is not valid JSON"});
  refused("[{\"prompt\": \"a\"},\n{\"promt\": \"b\"}]\n", {"a.jsonl:2: row 2 expected one of"});
  refused("\x1f\x8b", {"gzip"});
  refused("", {"found no prompt"});
}

TEST(Prompts, name_keys_that_nothing_was_made_of) {
  const TemporaryDirectory directory;
  const auto text = [&](const std::string& content) {
    return unused_keys_text(read_prompts(directory.write("a.jsonl", content)));
  };
  EXPECT_EQ(text(R"({"prompt": "a", "source": "x"})"), "not used: 'source' (1 row)");
  EXPECT_EQ(text(R"({"prompt": "a", "source": null})"), "");
}

}  // namespace
}  // namespace sluice
